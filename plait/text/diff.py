"""Unified diffs to files and hunks: git's, `diff -u`'s and those that agents write by hand.

One pass over the lines, no regular expression that can backtrack, and bounds on memory.
Nothing raises: other text goes to `prose`, unreadable lines are counted in `problems`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from plait.text.diff_paths import git_header_paths, header_path, strip_prefixes, unquote

MAX_FILES = 5_000
MAX_HUNKS = 20_000
MAX_PROSE = 65_536  # characters
MAX_HEADING = 300

# Up to nine digits: PostgreSQL's integer holds them. The heading is what follows the second `@@`.
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_COMBINED = ("diff --cc ", "diff --combined ")
_SIGNATURE = ("-- ", "--")  # what `git format-patch` ends a mail with


@dataclass(frozen=True, slots=True)
class Hunk:
    """`lines` keep their ' ', '-' or '+'; a `\\ No newline at end of file` is left out."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    heading: str
    lines: tuple[str, ...]

    def before(self) -> list[str]:
        """The lines that the old file has there."""
        return [line[1:] for line in self.lines if line[0] != "+"]

    def after(self) -> list[str]:
        """The lines that the new file has there."""
        return [line[1:] for line in self.lines if line[0] != "-"]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file's part. `old`/`new` are paths without `a/` and `b/`; "" where the file is not there.

    `status`: modified, added, deleted, renamed, copied, mode, or combined (a merge's diff, whose hunks
    are not read).
    """

    old: str
    new: str
    status: str
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False

    @property
    def path(self) -> str:
        """After the change; before it for a deletion."""
        return self.new or self.old


@dataclass(frozen=True, slots=True)
class Diff:
    """`prose`: the text round the diff, a commit's message say, cut at 64 Ki characters. `problems`:
    hunks whose counts did not fit, and what the bounds left out."""

    files: tuple[FileDiff, ...] = ()
    prose: str = ""
    problems: int = 0


@dataclass(slots=True)
class _Open:
    """The file that is being read."""

    old: str = ""
    new: str = ""
    status: str = ""
    named: bool = False  # `old` and `new` are settled by other than the `diff --git` line
    git: bool = False
    binary: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def parse_diff(text: str) -> Diff:
    """The files, hunks and remaining prose of `text`. Linear in its length."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.at = 0
        self.files: list[FileDiff] = []
        self.open: _Open | None = None
        self.prose: list[str] = []
        self.prose_size = 0
        self.hunks = 0
        self.problems = 0

    def parse(self) -> Diff:
        while self.at < len(self.lines):
            line = self.lines[self.at].removesuffix("\r")
            if line.startswith("diff --git "):
                self._begin_git(line)
            elif line.startswith(_COMBINED):
                self._skip_combined(line)
            elif self._is_name_pair():
                self._names(line)
            elif line.startswith("@@ -") and self.open is not None and self._hunk(line):
                continue
            elif self.open is None or not self._header(line):
                self._tell(line)
            self.at += 1
        self._close()
        return Diff(tuple(self.files), "\n".join(self.prose), self.problems)

    def _begin_git(self, line: str) -> None:
        self._close()
        old, new = git_header_paths(line[len("diff --git ") :])
        self.open = _Open(old, new, git=True)

    def _skip_combined(self, line: str) -> None:
        """A merge's diff compares with several parents: the file is named, its hunks are not read."""
        self._close()
        path = unquote(line.split(" ", 2)[2])
        self._add(FileDiff(path, path, "combined"))
        while self.at + 1 < len(self.lines) and not self.lines[self.at + 1].startswith("diff --"):
            self.at += 1

    def _is_name_pair(self) -> bool:
        """`--- x` with `+++ y` below it; one alone may be anything."""
        below = self.at + 1
        return (
            self.lines[self.at].startswith("--- ")
            and below < len(self.lines)
            and self.lines[below].startswith("+++ ")
        )

    def _names(self, line: str) -> None:
        # Two pairs under one `diff --git` are two files; so is a pair after hunks.
        if self.open is None or not self.open.git or self.open.hunks or self.open.named:
            self._close()
            self.open = _Open()
        self.at += 1
        old, new = header_path(line[4:]), header_path(self.lines[self.at].removesuffix("\r")[4:])
        if self.open.status not in ("renamed", "copied"):
            self.open.old, self.open.new = strip_prefixes(old, new)
        self.open.named = True

    def _header(self, line: str) -> bool:
        """One of git's extended headers; False when `line` is none."""
        file = self.open
        assert file is not None
        if file.hunks or not file.git:
            return False
        key, _, rest = line.partition(" ")
        if key in ("rename", "copy") and rest.startswith(("from ", "to ")):
            end, _, path = rest.partition(" ")
            if end == "from":
                file.old = unquote(path)
            else:
                file.new = unquote(path)
            file.status = "renamed" if key == "rename" else "copied"
        elif line.startswith("new file mode "):
            file.old, file.status = "", "added"
        elif line.startswith("deleted file mode "):
            file.new, file.status = "", "deleted"
        elif line.startswith(("old mode ", "new mode ")):
            file.status = file.status or "mode"
        elif line == "GIT binary patch" or line.startswith("Binary files "):
            file.binary = True
        else:
            return line.startswith(("index ", "similarity index ", "dissimilarity index "))
        return True

    def _hunk(self, line: str) -> bool:
        """Read the hunk whose header is `line`, and go on behind it; False when it is no header."""
        match = _HUNK.fullmatch(line)
        if match is None:
            return False
        a, b, c, d, heading = match.groups()
        counts = (int(b) if b else 1, int(d) if d else 1)
        self.at += 1
        body = self._body(*counts)
        seen = (sum(x[0] != "+" for x in body), sum(x[0] != "-" for x in body))
        if seen != counts:
            self.problems += 1
        if self.hunks >= MAX_HUNKS:
            self.problems += 1
        elif body:
            self.hunks += 1
            assert self.open is not None
            hunk = Hunk(int(a), seen[0], int(c), seen[1], heading[:MAX_HEADING], tuple(body))
            self.open.hunks.append(hunk)
        return True

    def _body(self, old: int, new: int) -> list[str]:
        """Lines until both counts are met, and on where counts are wrong, as agents often write them."""
        body: list[str] = []
        while self.at < len(self.lines) and (old > 0 or new > 0):
            line = self.lines[self.at]
            if line in ("", "\r"):
                line = " " + line  # an editor took the trailing blank
            if line[0] == "\\":
                self.at += 1
                continue
            if line[0] not in " +-":
                return body
            if (line[0] != "+" and old <= 0) or (line[0] != "-" and new <= 0):
                break
            old -= line[0] != "+"
            new -= line[0] != "-"
            body.append(line)
            self.at += 1
        return body + self._overrun()

    def _overrun(self) -> list[str]:
        """What goes on like a hunk behind its counts: part of it where the next header, or the end,
        follows at once; else it is something else."""
        end = self.at
        while end < len(self.lines) and self.lines[end][:1] in ("+", "-", " ", "\\"):
            line = self.lines[end].removesuffix("\r")
            below = self.lines[end + 1] if end + 1 < len(self.lines) else ""
            if line in _SIGNATURE or (line.startswith("--- ") and below.startswith("+++ ")):
                break
            end += 1
        more, self.at = self.lines[self.at : end], end
        stop = self.lines[end] if end < len(self.lines) else "diff "
        if stop.startswith(("@@ -", "diff ", "--- ")):
            return [line for line in more if line[0] != "\\"]
        for line in more:
            if line[0] != "\\":
                self._tell(line)
        return []

    def _tell(self, line: str) -> None:
        if self.prose_size + len(line) < MAX_PROSE:
            self.prose.append(line)
            self.prose_size += len(line) + 1

    def _close(self) -> None:
        file, self.open = self.open, None
        if file is None or not (file.old or file.new):
            return
        hunks = tuple(file.hunks)
        if not file.git and not hunks:
            return  # two lines of prose that looked like names
        status = file.status or ("modified" if file.old and file.new else "")
        status = status or ("deleted" if file.old else "added")
        if status == "mode" and (hunks or file.binary):
            status = "modified"
        self._add(FileDiff(file.old, file.new, status, hunks, file.binary))

    def _add(self, file: FileDiff) -> None:
        if len(self.files) >= MAX_FILES:
            self.problems += 1
            return
        self.files.append(file)


def touched(diff: Diff) -> Diff:
    """`diff` with one `FileDiff` a path, in order of first appearance: several commits may touch it."""
    by_path: dict[str, FileDiff] = {}
    for file in diff.files:
        known = by_path.get(file.path)
        if known is not None:
            file = replace(known, hunks=known.hunks + file.hunks, new=file.new)
        by_path[known.path if known else file.path] = file
    return replace(diff, files=tuple(by_path.values()))
