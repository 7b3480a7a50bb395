"""The users' side: hold a server for as long as it is needed, starting it when nobody has yet."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from plait.domain.errors import EmbeddedServerFailed, StoreFull
from plait.supervisor import detached, process, state
from plait.supervisor.files import private_folder, tail, unusable
from plait.supervisor.locks import FileLock
from plait.supervisor.state import Phase, State

logger = logging.getLogger(__name__)

MAX_KEEPERS = 3  # keepers started for one wait, before we say that they don't come up
POLL_S = 0.01
FULL_BYTES = 2**20  # with less than this free, a silent keeper is taken to have had no space


@dataclass(frozen=True, slots=True)
class Kept:
    """A server to keep: `entry` is `module:function(folder, config) -> ChildServer`, imported by the
    keeper alone; `config` must be JSON."""

    name: str
    folder: Path
    entry: str
    config: Mapping[str, Any]
    linger_s: float
    start_timeout_s: float
    folder_mode: int = 0o700


class Lease:
    """A user's hold on a running server. The server lives at least as long as this, and this ends with
    `close` or with the process, however it dies."""

    def __init__(self, kept: Kept) -> None:
        """Blocks until the server answers; about a millisecond when it runs already.

        Raises: HomeUnusable, StoreFull, EmbeddedServerFailed.
        """
        self._kept = kept
        folder = private_folder(kept.folder, kept.folder_mode)
        try:
            self._users = FileLock(folder / state.USERS_LOCK)
        except OSError as exc:
            raise unusable(folder, exc) from exc
        try:
            # In the way is only a keeper that is stopping: it holds the lock until it is done.
            if not self._users.acquire_within(kept.start_timeout_s, shared=True):
                raise EmbeddedServerFailed(
                    f"{kept.name} in {folder} has been stopping for {kept.start_timeout_s:g} s; "
                    "`plait doctor` names the process"
                )
            self._state = _wait(kept)
        except BaseException:
            self._users.close()
            raise

    @property
    def state(self) -> State:
        return self._state

    def refresh(self) -> State:
        """Where the server is now, after it or its keeper died: waits for, or makes, a new start.

        Raises: as the constructor.
        """
        self._state = _wait(self._kept)
        return self._state

    def check_space(self) -> None:
        """Raises: StoreFull, when nothing is left of the disk that the server writes on. Some servers
        do not say that this is what failed."""
        if _no_space(self._kept.folder):
            raise _full(self._kept.folder)

    def close(self) -> None:
        """Leave. The last user's leaving stops the server. Doing it twice is fine."""
        self._users.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def keeper_alive(folder: Path) -> bool:
    """Whether a keeper holds `folder`; starts nothing. Raises: OSError."""
    with (
        FileLock(folder / state.START_LOCK) as start,
        FileLock(folder / state.KEEPER_LOCK) as keeper,
    ):
        start.acquire()
        return not keeper.try_acquire(shared=True)


def wait_stopped(folder: Path, limit_s: float) -> bool:
    """Whether `folder` is without a keeper within `limit_s` seconds: True at once if it was never used."""
    end = time.monotonic() + limit_s
    while folder.is_dir() and keeper_alive(folder):
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True


def _wait(kept: Kept) -> State:
    """The published state of a ready server, whose keeper is started if there is none."""
    began = time.monotonic()
    started = 0
    pause = POLL_S
    while True:
        try:
            started += _ensure_keeper(kept, began, started)
        except OSError as exc:
            raise unusable(kept.folder, exc) from exc
        current = state.read(kept.folder)
        # A dead server or keeper may still be published, for the moment until somebody notices.
        if current is not None and current.phase is Phase.READY and _alive(current):
            return current
        if current is not None and current.phase is Phase.FAILED and current.at >= began:
            raise current.error()
        if time.monotonic() - began > kept.start_timeout_s:
            raise _too_late(kept, current)
        time.sleep(pause)
        pause = min(0.05, pause * 1.2)


def _alive(current: State) -> bool:
    return all(part is not None and process.alive(part) for part in (current.keeper, current.child))


def _ensure_keeper(kept: Kept, began: float, started: int) -> int:
    """Start a keeper unless one lives; how many were started. Raises: PlaitError, OSError."""
    folder = kept.folder
    # All who look take turns: a look holds `keeper.lock` for a moment, which another would mistake
    # for a keeper, whose stale `endpoint.json` it would then trust.
    with FileLock(folder / state.START_LOCK) as start:
        start.acquire()
        with FileLock(folder / state.KEEPER_LOCK) as lock:
            if not lock.try_acquire():
                return 0
            last = state.read(folder)
            if last is not None and last.phase is Phase.FAILED and last.at >= began:
                raise last.error()
            if started >= MAX_KEEPERS:
                raise _no_keeper(kept)
            (folder / state.FILE).unlink(missing_ok=True)
            _spawn(kept, lock)
            return 1


def _spawn(kept: Kept, lock: FileLock) -> None:
    """Start a keeper that inherits `lock`: there is no moment at which nobody holds it."""
    config = {
        **kept.config,
        "entry": kept.entry,
        "linger_s": kept.linger_s,
        "start_timeout_s": kept.start_timeout_s,
    }
    status = detached.start(
        "plait.supervisor.keeper:keep",
        kept.folder,
        lock.fd,
        config,
        log=kept.folder / state.KEEPER_LOG,
        # Nothing of the caller's environment but where its own packages may be (user site).
        env={"PATH": os.defpath, "HOME": _home(kept.folder), "LC_ALL": "C.UTF-8"},
    )
    logger.debug("keeper started", extra={"server": kept.name, "status": status})


def _home(otherwise: Path) -> str:
    """The account's home folder; `otherwise` for one that has none, as a container's bare number."""
    try:
        return str(Path.home())
    except RuntimeError:
        return str(otherwise)


def _no_keeper(kept: Kept) -> EmbeddedServerFailed | StoreFull:
    if _no_space(kept.folder):
        return _full(kept.folder)
    return EmbeddedServerFailed(
        f"the keeper of {kept.name} ended {MAX_KEEPERS} times without a word; "
        f"{kept.folder / state.KEEPER_LOG} ends:\n{tail(kept.folder / state.KEEPER_LOG)}"
    )


def _no_space(folder: Path) -> bool:
    space = os.statvfs(folder)
    return space.f_bavail * space.f_frsize < FULL_BYTES or bool(
        space.f_files and not space.f_favail
    )


def _full(folder: Path) -> StoreFull:
    return StoreFull(
        f"no space is left on the disk under {folder}; free some, then run again", path=folder
    )


def _too_late(kept: Kept, current: State | None) -> EmbeddedServerFailed:
    phase = current.phase.value if current else "not there"
    return EmbeddedServerFailed(
        f"{kept.name} did not answer within {kept.start_timeout_s:g} s (it is {phase}; after a crash, "
        "recovery can take longer). Run again to wait on, or raise `embedded.start_timeout_s`; "
        f"its log is in {kept.folder}",
        folder=kept.folder,
    )
