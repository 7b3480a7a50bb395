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
    """The BLAKE2b-16 that tells whether a file changed; `update` it with more. `rules`: the 16-byte digest
    of the rules of secrets that hold."""
    person = b"plait-index-%d" % INDEX_VERSION
    return blake2b(data, digest_size=HASH_BYTES, person=person, salt=rules)


class NotAFile(OSError):
    """A folder, fifo, socket or device."""


@contextmanager
def opened(path: str) -> Iterator[tuple[int, int]]:
    """`(file descriptor, size)` of a regular file.

    Raises: NotAFile; OSError, as `os.open`.
    """
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotAFile(path)
        yield fd, status.st_size
    finally:
        os.close(fd)


def read_limited(path: str, limit: int) -> bytes | None:
    """All bytes of a regular file; None when they are more than `limit`.

    Raises: NotAFile; OSError.
    """
    with opened(path) as (fd, size):
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
