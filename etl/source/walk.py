"""The files of a repository, as git would list them, without running git.

Rules, in falling order: `.plaitignore` files (the deepest first), `.gitignore` files (the deepest
first), `.git/info/exclude`. When the root lies inside a git work tree, the ignore files between that
tree's top and the root hold too. A tracked file stays although a pattern ignores it, as in git; what
is tracked is read from `.git/index`. git itself is never started: a hostile `.git/config` makes it run
programs (fsmonitor, hooks). The user's global `core.excludesFile` is left out, so that one tree gives
one index on every machine.

Symbolic links are never followed: what they lead to inside the root is found under its own path.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from etl.source.files import NotAFile, opened, read_limited
from etl.source.gitdir import Exclusions, find_exclusions
from etl.source.ignore import IgnoreFile, as_bytes_text, compile_ignore
from etl.source.secrets import Files
from plait.domain.errors import EmptyRepository, NotARepository
from plait.secrets.rules import BUILT_IN, Rules

SNIFF_BYTES = 8000  # git looks for a NUL in as many (buffer_is_binary)
MAX_IGNORE_BYTES = 1_000_000


class Cause(StrEnum):
    """Why a path is not indexed."""

    IGNORED = "ignored"  # a folder counts once, whatever it holds
    BINARY = "binary"
    TOO_LARGE = "too large"
    SYMLINK = "symlink"
    SYMLINK_OUT = "symlink leaves the repository"
    SYMLINK_BROKEN = "broken symlink"
    SUBMODULE = "nested repository"
    UNREADABLE = "unreadable"
    NOT_A_FILE = "not a regular file"
    BAD_NAME = "name is not UTF-8"
    BAD_IGNORE_FILE = "ignore file too large"
    SECRET_NAME = "secret by name"  # noqa: S105
    SECRET_CONTENT = "secret by content"  # noqa: S105


@dataclass(frozen=True, slots=True)
class WalkedFile:
    """`path` is relative to the root, with `/`."""

    path: str
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Walk:
    """`files` and `skipped` are sorted by path; a skipped folder's path ends with `/`."""

    root: str
    files: list[WalkedFile]
    skipped: list[tuple[str, str]]

    @property
    def skips(self) -> Mapping[str, int]:
        """Skipped paths by cause."""
        return Counter(cause for _, cause in self.skipped)


@dataclass(frozen=True, slots=True)
class _Rules:
    """Ignore files that hold in one folder, the one that decides first in front.

    Each comes with the length to cut from, or the text to put before, a path relative to the root,
    both as `as_bytes_text`.
    """

    plait: tuple[tuple[int, str, IgnoreFile], ...] = ()
    git: tuple[tuple[int, str, IgnoreFile], ...] = ()
    all: bool = False  # in an ignored folder, entered for the tracked files in it

    def ignored(self, path: str) -> bool:
        if self.all:
            return True
        if not (self.plait or self.git):
            return False
        path = as_bytes_text(path)
        for cut, before, rules in (*self.plait, *self.git):
            verdict = rules.verdict(before + path[cut:])
            if verdict is not None:
                return verdict
        return False


@dataclass(slots=True)
class _Walker:
    root: str
    real_root: str
    max_file_bytes: int
    tracked: frozenset[str]
    tracked_dirs: frozenset[str]
    secrets: Files
    files: list[WalkedFile] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def run(self, rules: _Rules) -> None:
        todo = [("", rules)]
        while todo:
            folder, rules = todo.pop()
            try:
                with os.scandir(self.root + "/" + folder) as listing:
                    entries = list(listing)
            except OSError:
                if not folder:
                    raise
                self.skip(folder, Cause.UNREADABLE)
                continue
            names = {entry.name for entry in entries}
            if folder and ".git" in names:
                self.skip(folder, Cause.SUBMODULE)
                continue
            rules = self.enter(folder, names, rules)
            todo += self.sort_out(folder, entries, rules)

    def enter(self, folder: str, names: set[str], rules: _Rules) -> _Rules:
        """The rules inside `folder`: its own ignore files come first."""
        plait, git = rules.plait, rules.git
        if rules.all:
            return rules
        if ".plaitignore" in names:
            plait = (*self.read_rules(folder, ".plaitignore"), *plait)
        if ".gitignore" in names:
            git = (*self.read_rules(folder, ".gitignore"), *git)
        if plait is rules.plait and git is rules.git:
            return rules
        return _Rules(plait, git)

    def read_rules(self, folder: str, name: str) -> tuple[tuple[int, str, IgnoreFile], ...]:
        try:
            data = read_limited(self.root + "/" + folder + name, MAX_IGNORE_BYTES)
        except OSError:
            return ()  # the file itself is walked too, and reported there
        if data is None:
            self.skip(folder + name, Cause.BAD_IGNORE_FILE)
            return ()
        compiled = compile_ignore(data.decode("latin-1"))
        return ((len(as_bytes_text(folder)), "", compiled),) if compiled else ()

    def sort_out(
        self, folder: str, entries: list[os.DirEntry[str]], rules: _Rules
    ) -> list[tuple[str, _Rules]]:
        """Take each entry in or skip it; return the folders to enter."""
        inner = []
        for entry in entries:
            path = folder + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if not path.isascii() and not _is_utf8(path):
                self.skip(path, Cause.BAD_NAME)
            elif entry.name == ".git" and (is_folder or not folder):
                continue  # also a work tree's or a submodule's pointer to its repository
            elif is_folder:
                inner += self.entered(path + "/", rules)
            elif cause := self.cause_of(entry, path, rules):
                self.skip(path, cause)
            else:
                self.sniff(path)
        return inner

    def entered(self, path: str, rules: _Rules) -> list[tuple[str, _Rules]]:
        """The folder `path` with the rules inside it; skipped and none when nothing of it counts."""
        ignored = rules.ignored(path)
        if ignored and path not in self.tracked_dirs:
            self.skip(path, Cause.IGNORED)
        elif self.secrets.by_name(path):
            self.skip(path, Cause.SECRET_NAME)
        else:
            return [(path, _Rules(all=True) if ignored else rules)]
        return []

    def cause_of(self, entry: os.DirEntry[str], path: str, rules: _Rules) -> Cause | None:
        """Why a file is left out for its name or kind, before it is opened; None when it is not."""
        if path not in self.tracked and rules.ignored(path):
            return Cause.IGNORED
        if entry.is_symlink():
            return self.link_cause(path)
        if not entry.is_file(follow_symlinks=False):
            return Cause.NOT_A_FILE
        return Cause.SECRET_NAME if self.secrets.by_name(path) else None

    def sniff(self, path: str) -> None:
        """Take `path` in, unless its size or its first bytes forbid it."""
        try:
            with opened(self.root + "/" + path) as (fd, size):
                if size > self.max_file_bytes:
                    self.skip(path, Cause.TOO_LARGE)
                elif b"\0" in (head := os.read(fd, SNIFF_BYTES)):
                    self.skip(path, Cause.BINARY)
                elif self.secrets.by_content(path, head):
                    self.skip(path, Cause.SECRET_CONTENT)
                else:
                    self.files.append(WalkedFile(path, size))
        except NotAFile:
            self.skip(path, Cause.NOT_A_FILE)
        except OSError:
            self.skip(path, Cause.UNREADABLE)

    def link_cause(self, path: str) -> Cause:
        full = self.root + "/" + path
        target = os.path.realpath(full)
        if target != self.real_root and not target.startswith(self.real_root.rstrip("/") + "/"):
            return Cause.SYMLINK_OUT
        return Cause.SYMLINK if os.path.exists(full) else Cause.SYMLINK_BROKEN  # noqa: PTH110

    def skip(self, path: str, cause: Cause) -> None:
        self.skipped.append((_printable(path), cause.value))


def walk(root: Path, *, max_file_bytes: int, rules: Rules = BUILT_IN) -> Walk:
    """The files of the tree at `root` to index, and those left out and why. Never blocks, never recurses.
    `rules`: of secrets.

    Reads the ignore files and up to 8,000 bytes of each file found. About 15 µs a file.

    Raises:
        NotARepository: `root` is missing, not a folder, or must not be read.
        EmptyRepository: no file is left to index.
    """
    top = os.path.abspath(root)  # noqa: PTH100  (Path.absolute keeps `..`)
    _refuse_unreadable(top)
    exclusions = find_exclusions(top)
    walker = _Walker(
        top.rstrip("/"),
        os.path.realpath(top),
        max_file_bytes,
        exclusions.tracked,
        _folders_of(exclusions.tracked),
        Files(rules),
    )
    try:
        walker.run(_outer_rules(exclusions))
    except OSError as exc:
        raise _not_a_repository(top, exc) from exc
    walker.files.sort(key=lambda file: file.path)
    walker.skipped.sort()
    found = Walk(top, walker.files, walker.skipped)
    if not found.files:
        raise _empty(found)
    return found


def look_again(
    root: str, paths: Iterable[str], *, max_file_bytes: int, rules: Rules
) -> tuple[list[WalkedFile], list[tuple[str, str]]]:
    """Of files that an earlier walk took in: those to index still, and those left out now and why. A file
    that is no more is in neither."""
    walker = _Walker(root.rstrip("/"), root, max_file_bytes, frozenset(), frozenset(), Files(rules))
    for path in paths:
        if os.path.lexists(f"{root}/{path}"):
            walker.sniff(path)
    return walker.files, walker.skipped


def _outer_rules(exclusions: Exclusions) -> _Rules:
    """The rules that reach the root from above it."""
    plait: list[tuple[int, str, IgnoreFile]] = []
    git: list[tuple[int, str, IgnoreFile]] = []
    for kind, (file, before) in (
        *((plait, item) for item in exclusions.plaitignores),
        *((git, item) for item in exclusions.gitignores),
    ):
        try:
            data = read_limited(file, MAX_IGNORE_BYTES)
        except OSError:
            continue
        compiled = compile_ignore(data.decode("latin-1")) if data else None
        if compiled:
            kind.append((0, as_bytes_text(before), compiled))
    return _Rules(tuple(plait), tuple(git))


def _folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Every folder, with its `/`, on the way to one of `paths`."""
    out: set[str] = set()
    for path in paths:
        end = path.rfind("/")
        while end > 0 and (folder := path[: end + 1]) not in out:
            out.add(folder)
            end = path.rfind("/", 0, end)
    return frozenset(out)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _refuse_unreadable(top: str) -> None:
    try:
        status = os.stat(top)  # noqa: PTH116
    except OSError as exc:
        raise _not_a_repository(top, exc) from exc
    if not stat.S_ISDIR(status.st_mode):
        raise NotARepository(
            f"{_printable(top)} is a file, not a folder; give the folder that holds the repository",
            path=_printable(top),
        )


def _not_a_repository(top: str, exc: OSError) -> NotARepository:
    fix = "check the path, and that this user may read the folder"
    if isinstance(exc, FileNotFoundError):
        fix = "check the path for a typing error"
    elif isinstance(exc, PermissionError):
        fix = "run as a user who may read the folder, or change its permissions"
    return NotARepository(
        f"cannot read {_printable(top)}: {exc.strerror}; {fix}", path=_printable(top)
    )


def _empty(found: Walk) -> EmptyRepository:
    causes = ", ".join(f"{n:,} {cause}" for cause, n in Counter(found.skips).most_common())
    why = f"everything in it was skipped ({causes})" if causes else "it holds no file"
    fix = (
        "check its .gitignore and .plaitignore files (`!pattern` in a .plaitignore takes files in "
        "again)"
        if causes
        else "check the path"
    )
    return EmptyRepository(
        f"{_printable(found.root)} has nothing to index: {why}; {fix}", path=_printable(found.root)
    )
