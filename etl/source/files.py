"""Open files of a hostile tree: never block on a fifo, never follow a link, never read without end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b

# O_NONBLOCK: opening a fifo returns at once. O_NOFOLLOW: the last part of the path is no link.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


# Part of every content hash. Raise it when chunking or the tokeniser changes: every file is then new
# to the next run, so one index never mixes two ways of cutting text. (Facts have a version of theirs.)
# The rules of secrets are part of it too: text that other rules masked is no longer what a run would store.
INDEX_VERSION = 2
HASH_BYTES = 16


def content_hash(data: bytes, rules: bytes) -> blake2b:
    """The BLAKE2b-16 that shows whether a file changed; `update` it with more. `rules`: the 16-byte digest
    of the rules of secrets that hold."""
    person = b"plait-index-%d" % INDEX_VERSION
    return blake2b(data, digest_size=HASH_BYTES, person=person, salt=rules)


class NotAFile(OSError):
    """A folder, fifo, socket or device."""


class Elsewhere(OSError):
    """A file that is not where its path says: a folder on the way there is a link, or became one."""


@contextmanager
def opened(path: str, *, real: bool = False) -> Iterator[tuple[int, int]]:
    """`(file descriptor, size)` of a regular file. `real`: no part of `path` is a link, or becomes one while
    the tree is read; what such a link leads to is never read.

    Raises: NotAFile; Elsewhere; OSError, as `os.open`.
    """
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile(path)
        if real and _place(fd, path) != path:
            raise Elsewhere(path)
        yield fd, status.st_size
    finally:
        os.close(fd)


def _place(fd: int, path: str) -> str:
    """Where an open file is. Without `/proc` where its path leads now."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  (a thousand files a second)
    except FileNotFoundError:
        return os.path.realpath(path)


def read_limited(path: str, limit: int, *, real: bool = False) -> bytes | None:
    """All bytes of a regular file; None when they are more than `limit`. `real`: as `opened`.

    Raises: NotAFile; Elsewhere; OSError.
    """
    with opened(path, real=real) as (fd, size):
        if size > limit:
            return None
        data = read_all(fd, limit + 1, size)
    return data if len(data) <= limit else None


def read_all(fd: int, limit: int, size: int) -> bytes:
    """The next `limit` bytes at most; `size` is how many are expected, to save a call."""
    data = os.read(fd, min(limit, size + 1))
    if len(data) <= size:  # one byte less than asked for: this was all
        return data
    parts = [data]
    left = limit - len(data)
    while left > 0 and (data := os.read(fd, min(left, 2**20))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
