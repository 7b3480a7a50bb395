"""Advisory file locks that the kernel drops when their holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

POLL_S = 0.01  # how often a lock with a time limit is tried


class FileLock:
    """`flock` on one file, created 0600 when missing. The file is never removed: a lock on an
    unlinked file would guard nothing.

    A forked child inherits the lock's open file, and would keep the lock alive after its parent; so
    the child closes its copy at once.
    """

    def __init__(self, path: Path, *, fd: int = -1) -> None:
        """`fd`: take over an open, perhaps locked file that another process handed down.

        Raises: OSError, when the file cannot be opened.
        """
        self.path = path
        self._fd = fd if fd >= 0 else os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _open_locks.add(self._fd)

    @property
    def fd(self) -> int:
        """The descriptor, to hand down; -1 once closed."""
        return self._fd

    def acquire(self, *, shared: bool = False) -> None:
        """Wait as long as it takes."""
        fcntl.flock(self._fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire_within(self, limit_s: float, *, shared: bool = False) -> bool:
        """Take the lock within `limit_s` seconds, or return False."""
        end = time.monotonic() + limit_s
        while not self.try_acquire(shared=shared):
            if time.monotonic() >= end:
                return False
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        """Give the lock up and keep the file open."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file. The lock goes with its last open copy; doing it twice is fine."""
        if self._fd >= 0:
            _open_locks.discard(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# Only for the fork hook below: the kernel's view of which files this process holds.
_open_locks: set[int] = set()


def _forget_in_child() -> None:
    for fd in _open_locks:
        try:
            os.close(fd)
        except OSError:
            continue
    _open_locks.clear()


os.register_at_fork(after_in_child=_forget_in_child)
