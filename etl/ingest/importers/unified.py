"""Unified diffs: `git diff`, `diff -u`, Subversion's, and `git show` and `git log -p` with messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO

from etl.ingest.episode_json import Read
from etl.ingest.importers.draft import MAX_CONTENT_BYTES, MAX_RAW_BYTES, Draft, Options, inside
from plait.domain.errors import TranscriptInvalid
from plait.domain.values import ArtifactKind
from plait.text.diff_paths import git_header_paths, header_path, strip_prefixes, unquote

MAX_LINE = 2**20  # bytes; a longer line is no source code
MAX_BYTES = 256 * 2**20
MAX_HELD = 64  # blank lines that wait for what follows them
PROSE_CHARS = 16_000

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_NEW_FILE = ("diff --git ", "diff --cc ", "diff --combined ", "Index: ")
_SHOWN = re.compile(
    r"commit [0-9a-f]{7,64}[^\n]*\n(?:(?:Merge|Author|Commit): [^\n]*\n)+Date: +([^\n]{1,60})\n"
)
_COMMIT = re.compile(r"commit ([0-9a-f]{7,64})(?: \(.*\))?\s*\Z")


@dataclass(slots=True)
class FilePatch:
    """One file's lines of a diff; `path` after the change, before it for a deletion."""

    lines: list[str] = field(default_factory=list)
    size: int = 0  # bytes
    path: str = ""
    short: bool = False  # a hunk ends before it has the lines that its header counts
    oversized: int = 0  # lines left out: the patch of this file is larger than an artifact may be

    def add(self, line: str) -> None:
        cost = len(line.encode("utf-8", "replace")) + 1
        if self.size + cost > MAX_CONTENT_BYTES - 1_000:
            self.oversized += 1
            return
        self.lines.append(line)
        self.size += cost

    @property
    def text(self) -> str:
        note = f"\n[… {self.oversized:,} lines cut …]" if self.oversized else ""
        return "\n".join(self.lines) + note


class Splitter:
    """Lines of a diff to one patch a file, and the prose between; hunks are counted through, so a
    removed line `-- a` (shown as `--- a`) does not begin a file."""

    def __init__(self) -> None:
        self.open: FilePatch | None = None
        self.header = False  # still in the open file's header
        self.named = False
        self.left = [0, 0]  # lines of the open hunk, old and new
        self.prose: list[str] = []
        self.prose_size = 0
        self.files = 0

    @property
    def in_hunk(self) -> bool:
        return self.open is not None and max(self.left) > 0

    def feed(self, line: str) -> FilePatch | None:
        """Take the next line; the file that it ends, if it ends one."""
        if self.in_hunk and line[:1] in (" ", "+", "-", "\\", ""):
            self._in_hunk(line)
            return None
        self._close_hunk()
        if line.startswith(_NEW_FILE):
            # Subversion's own header stands before git's or the plain one's: one file.
            if self._continues(line):
                self._add(line)
                return None
            return self._begin(line)
        if line.startswith("--- ") and not (
            self.open is not None and self.header and not self.named
        ):
            # Plain `diff -u`: the second of the pair proves it; until then it is a guess.
            return self._begin(line)
        self._other(line)
        return None

    def end(self) -> FilePatch | None:
        self._close_hunk()
        done, self.open = self.open, None
        return self._done(done)

    def _close_hunk(self) -> None:
        if self.open is not None and self.in_hunk:
            self.open.short = True
        self.left = [0, 0]

    def _continues(self, line: str) -> bool:
        return (
            self.open is not None
            and self.header
            and not self.named
            and self.open.lines[0].startswith("Index: ")
            and not line.startswith("Index: ")
        )

    def _begin(self, line: str) -> FilePatch | None:
        done, self.open = self.open, FilePatch()
        self.header, self.named = True, False
        self._add(line)
        if line.startswith("diff --git "):
            old, new = git_header_paths(line[len("diff --git ") :])
            self.open.path = new or old
        elif line.startswith("Index: "):
            self.open.path = line[len("Index: ") :].strip()
        elif line.startswith("diff --"):
            self.open.path = line.split(" ", 2)[2]
        return self._done(done)

    def _other(self, line: str) -> None:
        file = self.open
        if file is None:
            return self._tell(line)
        match = _HUNK.match(line)
        if match is not None:
            self.header = False
            self.left = [int(match[1] or 1), int(match[2] or 1)]
            return self._add(line)
        if self.header or line.startswith(("\\", "Property changes", "Added: ", "Modified: ")):
            if line.startswith("+++ "):
                self._name(line)
            elif line.startswith(("rename to ", "copy to ")):
                file.path = unquote(line.partition(" to ")[2])
            return self._add(line)
        self._tell(line)

    def _name(self, line: str) -> None:
        assert self.open is not None
        self.named = True
        before = next((x for x in reversed(self.open.lines) if x.startswith("--- ")), None)
        if before is not None:
            old, new = strip_prefixes(header_path(before[4:]), header_path(line[4:]))
            self.open.path = new or old

    def _in_hunk(self, line: str) -> None:
        self._add(line)
        if line[:1] in (" ", "-", ""):
            self.left[0] -= 1
        if line[:1] in (" ", "+", ""):
            self.left[1] -= 1

    def _add(self, line: str) -> None:
        assert self.open is not None
        self.open.add(line)

    def _tell(self, line: str) -> None:
        if self.prose_size < PROSE_CHARS:
            self.prose.append(line[:1_000])
            self.prose_size += min(len(line), 1_000) + 1

    def _done(self, file: FilePatch | None) -> FilePatch | None:
        """`file` if it is one: two lines of prose that looked like a header go back to the prose."""
        if file is None:
            return None
        git = file.lines[0].startswith(("diff --", "Index: "))
        if not git and not any(x.startswith("@@ ") for x in file.lines[:3]):
            for line in file.lines:
                self._tell(line)
            return None
        self.files += 1
        return file


def split(text: str) -> tuple[list[FilePatch], str]:
    """The files of a whole diff, and its prose."""
    splitter = Splitter()
    found = [splitter.feed(line.removesuffix("\r")) for line in text.split("\n")]
    files = [file for file in (*found, splitter.end()) if file is not None]
    return files, "\n".join(splitter.prose).strip()


def add_file(draft: Draft, file: FilePatch, **meta: object) -> None:
    """The patch of one file as an artifact. A hunk that is cut short is noted, not refused."""
    if file.short:
        meta["cut_short"] = True
        where = f"the diff of {file.path}" if file.path else "a diff"
        draft.note = f"{where} ends inside a hunk; what is there is taken"
    draft.add(ArtifactKind.DIFF, file.text, inside(file.path, draft.options.root), meta)
    draft.count("files_changed")
    if file.oversized:
        draft.count("lines_cut", file.oversized)


def read(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """One episode with a diff a file, of `git log -p` one a commit: what a message says is about its
    own diffs. More of one session when the files are many.

    Raises: TranscriptInvalid, when there is no diff in it.
    """
    reader = _Reader(name, options)
    files = 0
    held: list[bytes] = []  # a blank line before the next commit is no part of the one before
    for line in _lines(stream, name):
        if reader.begins_commit(line):
            held.clear()
            if (last := reader.end()) is not None:
                yield last.read()
            files += reader.splitter.files
            reader = _Reader(name, options)
        elif not line.strip() and not reader.splitter.in_hunk and len(held) < MAX_HELD:
            held.append(line)
            continue
        for one in (*held, line):
            if done := reader.feed(one):
                yield done.read()
        held.clear()
    for one in held:
        reader.feed(one)
    if (last := reader.end()) is not None:
        yield last.read()
    if not files + reader.splitter.files:
        raise TranscriptInvalid(
            f"{name}: holds no unified diff; make one with `git diff` or `diff -u`", file=name
        )


def _lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    total = 0
    while line := stream.readline(MAX_LINE + 1):
        total += len(line)
        if len(line) > MAX_LINE or total > MAX_BYTES:
            what = f"a line of more than {MAX_LINE:,}" if len(line) > MAX_LINE else f"{MAX_BYTES:,}"
            raise TranscriptInvalid(
                f"{name}: has {what} bytes; leave generated files out of the diff", file=name
            )
        yield line


def _shown(prose: str) -> tuple[str, datetime | None]:
    """`(message, author's date)` of what `git show` prints before a diff; other prose as it is."""
    match = _SHOWN.match(prose)
    if match is None:
        return prose, None
    message = "\n".join(line.removeprefix("    ") for line in prose[match.end() :].split("\n"))
    try:
        return message.strip(), datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y %z")
    except ValueError:
        return message.strip(), None


class _Reader:
    def __init__(self, name: str, options: Options) -> None:
        self.name, self.options = name, options
        self.splitter = Splitter()
        self.draft = self._draft()
        self.parts = 0
        self.session = ""
        self.commit = ""

    def _draft(self) -> Draft:
        return Draft("diff", self.options, self.name, "text/x-diff")

    def begins_commit(self, raw: bytes) -> bool:
        """Whether the line is the next commit's first; of one without a diff nothing is read."""
        has_content = self.commit or self.splitter.open or self.draft.artifacts
        return bool(
            raw.startswith(b"commit ")
            and has_content
            and not self.splitter.in_hunk
            and _COMMIT.match(raw.decode("utf-8", "replace"))
        )

    def feed(self, raw: bytes) -> Draft | None:
        """An episode, when it is full and the file it ends with is whole."""
        line = raw.decode("utf-8", "replace").rstrip("\n").removesuffix("\r")
        file = self.splitter.feed(line)
        if not self.commit and not self.splitter.files and (match := _COMMIT.match(line)):
            self.commit = match[1]
        done = None
        if file is not None:
            add_file(self.draft, file)
        opened = self.splitter.open
        between = opened is not None and len(opened.lines) == 1 and bool(self.draft.artifacts)
        if (self.draft.full and between) or self.draft.raw_bytes >= MAX_RAW_BYTES:
            done = self._turn()
        self.draft.keep(raw)
        return done

    def _turn(self) -> Draft:
        """The draft goes out, the next one begins. The session is named by the first one's bytes."""
        done, self.draft = self.draft, self._draft()
        self._finish(done, more=True)
        return done

    def _finish(self, draft: Draft, more: bool) -> None:
        if more and not self.session:
            digest = hashlib.blake2b(b"".join(draft.raw), digest_size=10)
            self.session = f"diff-{digest.hexdigest()}"
        draft.session_key, draft.part, draft.commit = self.session, self.parts, self.commit
        self.parts += 1
        prose, draft.started_at = _shown("\n".join(self.splitter.prose).strip())
        files = int(draft.metrics.get("files_changed", 0))
        draft.summary = prose or f"A diff of {files} file{'s' if files != 1 else ''}."

    def end(self) -> Draft | None:
        file = self.splitter.end()
        if file is not None:
            add_file(self.draft, file)
        if not self.draft.artifacts:
            return None
        self._finish(self.draft, more=False)
        return self.draft
