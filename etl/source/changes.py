"""What changes in a folder while somebody follows it."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

import watchfiles

ADDED = watchfiles.Change.added
_KERNEL_TELLS = Path("/proc/self/fdinfo")
# After the first change, how long nothing more has to change before it is told, and at most.
QUIET_MS, LONGEST_MS = 50, 1600
POLL_MS = 2_000  # between two looks at every file, where the kernel can't tell
LOOK_MS = 2_000  # how often the folder itself is looked for
MOST_PATHS = 1_000  # told one by one
SILENT_S = (
    12.0  # without a word of the library, which has one every two seconds: nothing ran meanwhile
)
RESUMED_S = (
    0.5  # from SIGCONT until what waits in the kernel's queue has been read, and it has room again
)
WATCHED_WITHIN_S = 2.0  # until a new folder has its watch, on a busy machine


async def changes(
    root: Path, polling: Callable[[str], None], *, poll: bool = False
) -> AsyncIterator[frozenset[str] | None]:
    """Paths below `root`, relative to it, that changed, came or went; None when they are too many to tell.

    Ends when the folder is gone, or another one in its place. Where the kernel can't watch it, its files are looked at
    every two seconds, which takes about 5 µs of CPU a file; `polling` is told why. `poll`: do so at once. What lies in
    a `.git` folder is not told. While this process is stopped the kernel's queue may fill up, and what it can't hold
    nobody tells: see `Waiting.resumed`.
    """
    first = _identity(root)
    unseen = False  # what changed before the watch at hand began
    while first is not None and _identity(root) == first:
        try:
            watch = watchfiles.awatch(
                root,
                watch_filter=None,
                debounce=LONGEST_MS,
                step=QUIET_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                force_polling=poll,
                poll_delay_ms=POLL_MS,
                # It would mind no other error either, and leave the folders after that one unwatched.
                ignore_permission_denied=poll,
            )
            told_at = time.monotonic()
            async for found in watch:
                if _identity(root) != first:
                    return
                silent = time.monotonic() - told_at > SILENT_S
                told = _relative(root, {path for _, path in found})
                if unseen or silent or told is None:
                    unseen = False
                    yield None
                elif told:
                    yield told
                told_at = time.monotonic()
                if not poll:
                    await _check_watched(path for change, path in found if change is ADDED)
        except FileNotFoundError:  # a folder in it went while its watches were made
            unseen = True
            await asyncio.sleep(QUIET_MS / 1000)
        except (OSError, RuntimeError) as exc:
            if _identity(root) != first:
                return
            if poll:
                raise
            poll = unseen = True
            polling(str(exc))
            yield None


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

    def resumed(self) -> None:
        """This process was stopped and goes on: what the kernel had no room for is looked for."""
        asyncio.get_running_loop().call_later(RESUMED_S, self.add, None)

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


def _relative(root: Path, paths: set[str]) -> frozenset[str] | None:
    if len(paths) > MOST_PATHS:  # so many that the kernel's queue may have been full
        return None
    prefix = f"{root}/"
    told = (path.removeprefix(prefix) for path in paths if path.startswith(prefix))
    return frozenset(path for path in told if "/.git/" not in f"/{path}")


async def _check_watched(paths: Iterable[str]) -> None:
    """Raises: OSError, when a new folder has no watch: the library says nothing of it. Linux alone tells."""
    if sys.platform != "linux":
        return
    end = time.monotonic() + WATCHED_WITHIN_S
    left = {path for path in paths if "/.git/" not in f"{path}/"}
    while inodes := {inode: path for path in left if (inode := _folder(path))}:
        watched = _watched()
        left = {path for inode, path in inodes.items() if inode not in watched}
        if not left:
            return
        if time.monotonic() > end:
            raise OSError(errno.ENOSPC, "no watch left", min(left))
        await asyncio.sleep(QUIET_MS / 1000)


def _folder(path: str) -> int:
    """The inode of a folder; 0 for anything else."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0
    return found.st_ino if stat.S_ISDIR(found.st_mode) else 0


def _watched() -> frozenset[int]:
    """The inodes that this process has the kernel watch."""
    found: set[int] = set()
    for path in _KERNEL_TELLS.iterdir():
        with suppress(OSError):
            lines = path.read_text().splitlines()
            found.update(
                int(line.split("ino:")[1].split()[0], 16)
                for line in lines
                if line.startswith("inotify ")
            )
    return frozenset(found)
