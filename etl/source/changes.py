"""What changes in a folder while somebody follows it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import watchfiles

# After the first change, how long nothing more has to change before it is told, and at most.
QUIET_MS, LONGEST_MS = 50, 1600
POLL_MS = 2_000  # between two looks at every file, where the kernel can't tell
LOOK_MS = 2_000  # how often the folder itself is looked for
MOST_PATHS = 1_000  # told one by one


async def changes(
    root: Path, polling: Callable[[str], None], *, poll: bool = False
) -> AsyncIterator[frozenset[str] | None]:
    """Paths below `root`, relative to it, that changed, came or went; None when they are too many to tell.

    Ends when the folder is gone, or another one in its place. Where the kernel can't watch it, its files are looked at
    every two seconds, which takes about 5 µs of CPU a file; `polling` is told why. `poll`: do so at once. What lies in
    a `.git` folder is not told, nor what changes while this process is stopped and the kernel's queue is full.
    """
    first = _identity(root)
    while first is not None and _identity(root) == first:
        try:
            watch = watchfiles.awatch(
                root,
                watch_filter=_counts,
                debounce=LONGEST_MS,
                step=QUIET_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                force_polling=poll,
                poll_delay_ms=POLL_MS,
                ignore_permission_denied=True,
            )
            async for found in watch:
                if _identity(root) != first:
                    return
                if found:
                    yield _relative(root, {path for _, path in found})
        except (OSError, RuntimeError) as exc:
            if _identity(root) != first:
                return
            if poll:
                raise
            poll = True
            polling(str(exc))
            yield None  # what changed until now, nobody has seen


class Waiting:
    """What changed and is not indexed yet; at first anything may have."""

    def __init__(self) -> None:
        self._paths: set[str] | None = None
        self.came = asyncio.Event()

    def add(self, told: Collection[str] | None) -> None:
        """Paths below the folder; None: anything may have changed."""
        if told is None:
            self._paths = None
        elif self._paths is not None:
            self._paths |= set(told)
        self.came.set()

    def take(self) -> set[str] | None:
        """All of it, which then waits no more."""
        taken, self._paths = self._paths, set()
        self.came.clear()
        return taken


def holds_more(root: Path, most: int) -> bool:
    """Whether more than `most` files and folders lie below `root`: beginning to watch takes 10 µs for each, during
    which no other thread runs."""
    count = 0
    for _, folders, files in os.walk(root):
        count += len(folders) + len(files)
        if count > most:
            return True
    return False


def is_there(root: Path) -> bool:
    """Whether the folder is still one."""
    return root.is_dir()


def _identity(root: Path) -> tuple[int, int] | None:
    """Which folder this is; None when it is none."""
    try:
        stat = root.stat()
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino) if is_there(root) else None


def _counts(change: watchfiles.Change, path: str) -> bool:
    return "/.git/" not in path


def _relative(root: Path, paths: set[str]) -> frozenset[str] | None:
    if len(paths) > MOST_PATHS:
        return None
    prefix = f"{root}/"
    return frozenset(path.removeprefix(prefix) for path in paths if path.startswith(prefix))
