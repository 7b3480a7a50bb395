"""Facts about a work tree from its git folder: exclusions and tracked files, read without git.

Only plain files are read: `.git/info/exclude`, `.git/index`, ignore files above the root. Nothing of
`.git/config` is used, so nothing in a repository can make this run a program.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from etl.source.files import read_limited
from plait.worktree import work_tree

MAX_INDEX_BYTES = 512 * 2**20
MAX_BRANCH = 255


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Ignore files above the root, the deciding one first, each with what comes before a path that is
    relative to the root; and the tracked files below the root."""

    plaitignores: tuple[tuple[str, str], ...] = ()
    gitignores: tuple[tuple[str, str], ...] = ()
    tracked: frozenset[str] = frozenset()


def find_exclusions(root: str) -> Exclusions:
    """What holds for the absolute path `root`, from the git work tree that it lies in, if any."""
    top = work_tree(root)
    if top is None:
        return Exclusions()
    inside = os.path.relpath(root, top)
    before = "" if inside == "." else inside + "/"
    git_dir = _git_dir(top)
    plait: list[tuple[str, str]] = []
    git: list[tuple[str, str]] = []
    folder, rest = top, before
    while rest:  # from the top down, so that the deepest ends up in front
        plait.insert(0, (f"{folder}/.plaitignore", rest))
        git.insert(0, (f"{folder}/.gitignore", rest))
        name, _, rest = rest.partition("/")
        folder = f"{folder}/{name}"
    if git_dir:
        git.append((f"{_common_dir(git_dir)}/info/exclude", before))
    tracked = _tracked(f"{git_dir}/index", before) if git_dir else frozenset()
    return Exclusions(tuple(plait), tuple(git), tracked)


def _git_dir(top: str) -> str | None:
    """`.git`, or what a `.git` file (linked work tree, submodule) points to."""
    path = f"{top}/.git"
    if os.path.isdir(path):  # noqa: PTH112
        return path
    text = _read(path, 65536)
    if text is None or not text.startswith(b"gitdir:"):
        return None
    target = os.fsdecode(text[7:].strip())
    if "\0" in target:
        return None
    return os.path.join(top, target)  # noqa: PTH118


def branch_of(root: str) -> str:
    """The branch that the git work tree of `root` is on; the commit's hash where it is on none, "" without git."""
    top = work_tree(root)
    git_dir = _git_dir(top) if top else None
    head = _read(f"{git_dir}/HEAD", 4096) if git_dir else None
    text = (head or b"").decode("utf-8", "replace").strip()
    name = text.removeprefix("ref:").strip().removeprefix("refs/heads/")
    return name[:MAX_BRANCH] if name.isprintable() else ""


def _common_dir(git_dir: str) -> str:
    text = _read(f"{git_dir}/commondir", 65536)
    if not text or b"\0" in text:
        return git_dir
    return os.path.join(git_dir, os.fsdecode(text.strip()))  # noqa: PTH118


def _read(path: str, limit: int) -> bytes | None:
    """The bytes of a regular file of at most `limit`; None for anything else. Never blocks."""
    try:
        return read_limited(path, limit)
    except OSError:
        return None


def _tracked(index: str, before: str) -> frozenset[str]:
    """Tracked paths under `before`, relative to it; empty when the index can't be read."""
    data = _read(index, MAX_INDEX_BYTES)
    if data is None:
        return frozenset()
    prefix = os.fsencode(before)
    try:
        paths = _index_paths(data)
    except (struct.error, ValueError, IndexError):
        return frozenset()  # damaged, or of a version to come: then patterns alone decide
    return frozenset(os.fsdecode(p[len(prefix) :]) for p in paths if p.startswith(prefix))


def _index_paths(data: bytes) -> list[bytes]:
    """Paths of a git index, versions 2 to 4 (gitformat-index). SHA-1 repositories, else SHA-256.

    Raises: ValueError, struct.error, IndexError for anything else.
    """
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not a git index")
    try:
        return _entries(data, version, count, hash_bytes=20)
    except (struct.error, ValueError, IndexError):
        return _entries(data, version, count, hash_bytes=32)


def _entries(data: bytes, version: int, count: int, hash_bytes: int) -> list[bytes]:
    """The paths of `count` entries behind the 12-byte header.

    An entry: 40 bytes of status (the mode is at 24), the object's hash, 16 flag bits (0x4000: 16
    more), the path up to a NUL; versions 2 and 3 pad entries with NULs to a multiple of 8.
    """
    paths = []
    previous = b""
    at = 12
    for _ in range(count):
        flags_at = at + 40 + hash_bytes
        (flags,) = struct.unpack_from(">H", data, flags_at)
        (mode,) = struct.unpack_from(">I", data, at + 24)
        if mode >> 12 not in (0o10, 0o12, 0o16, 0o4):
            raise ValueError("no file mode")
        start = flags_at + (4 if flags & 0x4000 and version > 2 else 2)
        if version == 4:
            cut, start = _varint(data, start)
            if cut > len(previous):
                raise ValueError("bad path prefix")
        end = data.index(b"\0", start)
        if version == 4:
            previous = previous[: len(previous) - cut] + data[start:end]
            at = end + 1
        else:
            previous = data[start:end]
            at += (end - at + 8) & ~7
        if mode >> 12 == 0o10:
            paths.append(previous)
    return paths


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """git's offset encoding: 7 bits a byte, the high bit says more, each further byte adds one."""
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
