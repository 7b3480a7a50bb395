"""The users' side: hold a server for as long as it is needed, and start it if it does not run."""

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

MAX_KEEPERS = 3  # keepers started for one wait before it fails
POLL_S = 0.01
FULL_BYTES = 2**20  # with less than this free, a silent keeper is taken to have had no space


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How to start a server: `entry` is `module:function(folder, config) -> ChildServer`, imported by the
    keeper alone; `config` must be JSON."""

    name: str
    folder: Path
    entry: str
    config: Mapping[str, Any]
    linger_s: float
    start_timeout_s: float
    folder_mode: int = 0o700


class Lease:
    """A user's hold on a running server, which lives at least as long. The hold ends with `close` or
    with the process, however that dies."""

    def __init__(self, spec: ServerSpec) -> None:
        """Blocks until the server answers; about a millisecond when it runs already.

        Raises: HomeUnusable, StoreFull, EmbeddedServerFailed.
        """
        self._spec = spec
        folder = private_folder(spec.folder, spec.folder_mode)
        try:
            self._users = FileLock(folder / state.USERS_LOCK)
        except OSError as exc:
            raise unusable(folder, exc) from exc
        try:
            # Only a keeper that is stopping holds the lock exclusively, until it has stopped.
            if not self._users.acquire_within(spec.start_timeout_s, shared=True):
                raise EmbeddedServerFailed(
                    f"{spec.name} in {folder} has been stopping for {spec.start_timeout_s:g} s; "
                    "`plait doctor` names the process"
                )
            self._state = _wait(spec)
        except BaseException:
            self._users.close()
            raise

    @property
    def state(self) -> State:
        return self._state

    def refresh(self) -> State:
        """The state of the server after it or its keeper died: waits for its restart, or restarts it.

        Raises: as the constructor.
        """
        self._state = _wait(self._spec)
        return self._state

    def check_space(self) -> None:
        """Raises: StoreFull, when the disk that the server writes to is full. Some servers do not
        report that as the cause of an error."""
        if _no_space(self._spec.folder):
            raise _full(self._spec.folder)

    def close(self) -> None:
        """End the hold; the server stops when its last user leaves. Idempotent."""
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


def _wait(spec: ServerSpec) -> State:
    """The published state of a ready server, whose keeper is started if there is none."""
    began = time.monotonic()
    started = 0
    pause = POLL_S
    while True:
        try:
            started += _ensure_keeper(spec, began, started)
        except OSError as exc:
            raise unusable(spec.folder, exc) from exc
        current = state.read(spec.folder)
        # A dead server or keeper may still be published until its death is noticed.
        if current is not None and current.phase is Phase.READY and _alive(current):
            return current
        if current is not None and current.phase is Phase.FAILED and current.at >= began:
            raise current.error()
        if time.monotonic() - began > spec.start_timeout_s:
            raise _timed_out(spec, current)
        time.sleep(pause)
        pause = min(0.05, pause * 1.2)


def _alive(current: State) -> bool:
    return all(part is not None and process.alive(part) for part in (current.keeper, current.child))


def _ensure_keeper(spec: ServerSpec, began: float, started: int) -> int:
    """Start a keeper unless one lives; how many were started. Raises: PlaitError, OSError."""
    folder = spec.folder
    # Checks are serialized: each holds `keeper.lock` for a moment, which another check would mistake
    # for a keeper, and trust a stale `endpoint.json`.
    with FileLock(folder / state.START_LOCK) as start:
        start.acquire()
        with FileLock(folder / state.KEEPER_LOCK) as lock:
            if not lock.try_acquire():
                return 0
            last = state.read(folder)
            if last is not None and last.phase is Phase.FAILED and last.at >= began:
                raise last.error()
            if started >= MAX_KEEPERS:
                raise _no_keeper(spec)
            (folder / state.FILE).unlink(missing_ok=True)
            _spawn(spec, lock)
            return 1


def _spawn(spec: ServerSpec, lock: FileLock) -> None:
    """Start a keeper that inherits `lock`: it is held without a gap."""
    config = {
        **spec.config,
        "entry": spec.entry,
        "linger_s": spec.linger_s,
        "start_timeout_s": spec.start_timeout_s,
    }
    status = detached.start(
        "plait.supervisor.keeper:keep",
        spec.folder,
        lock.fd,
        config,
        log=spec.folder / state.KEEPER_LOG,
        # Nothing of the caller's environment but where its own packages may be (user site).
        env={"PATH": os.defpath, "HOME": _home(spec.folder), "LC_ALL": "C.UTF-8"},
    )
    logger.debug("keeper started", extra={"server": spec.name, "status": status})


def _home(otherwise: Path) -> str:
    """The account's home folder; `otherwise` for one that has none, as a container's bare number."""
    try:
        return str(Path.home())
    except RuntimeError:
        return str(otherwise)


def _no_keeper(spec: ServerSpec) -> EmbeddedServerFailed | StoreFull:
    if _no_space(spec.folder):
        return _full(spec.folder)
    return EmbeddedServerFailed(
        f"the keeper of {spec.name} ended {MAX_KEEPERS} times without a word; "
        f"{spec.folder / state.KEEPER_LOG} ends:\n{tail(spec.folder / state.KEEPER_LOG)}"
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


def _timed_out(spec: ServerSpec, current: State | None) -> EmbeddedServerFailed:
    phase = current.phase.value if current else "not there"
    return EmbeddedServerFailed(
        f"{spec.name} did not answer within {spec.start_timeout_s:g} s (it is {phase}; after a crash, "
        "recovery can take longer). Run again to wait on, or raise `embedded.start_timeout_s`; "
        f"its log is in {spec.folder}",
        folder=spec.folder,
    )
