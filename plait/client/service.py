"""One service per PLAIT_HOME: the running one, or a new one started in the background.

The first caller starts it; callers that come meanwhile wait for that start. It exits after
`server.idle_s` without a call, or by `stop`.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plait
from plait.client import discovery
from plait.client.discovery import ServerAddress
from plait.domain.errors import PlaitError, ServerAlreadyRunning, ServiceNotStarted
from plait.settings import Settings
from plait.supervisor import detached, process
from plait.supervisor.files import private_folder, tail, unusable
from plait.supervisor.home import make_home
from plait.supervisor.locks import FileLock
from plait.supervisor.process import Step

logger = logging.getLogger(__name__)

LOG = "service.log"
POLL_S = 0.02
# A service ends its calls, then its servers: the graph server's stop alone may take seconds.
STOP_MARGIN_S = 60.0
# A client's own choices, which must not become everybody's.
_NOT_HANDED_ON = ("PLAIT_SCOPE__TENANT", "PLAIT_SERVER")


def ensure(settings: Settings, *, wait: bool = True) -> ServerAddress | None:
    """Where the service of `settings.home` listens; started if none does. Blocks until it answers, a second
    or two, longer after a crash. `wait=False`: start one if none runs, wait for nothing, None.

    Raises: ServiceNotStarted, with the reason for which it could not start; HomeUnusable, StoreFull.
    """
    if (known := discovery.running(settings.home)) and known.version == plait.__version__:
        return known
    make_home(settings.home)
    folder = private_folder(discovery.folder(settings.home))
    limit_s = settings.embedded.start_timeout_s
    end = time.monotonic() + limit_s
    with FileLock(folder / "start") as turn:
        if not turn.acquire_within(limit_s if wait else 0.0):
            if not wait:
                return None  # another process starts one
            raise _timed_out(folder, limit_s)
        if wait:
            return _started(settings, folder, turn, end)
        known = _current(settings)
        if known is None and not discovery.is_claimed(settings.home):
            _begin(settings, folder, turn)
        return known


def _current(settings: Settings) -> ServerAddress | None:
    """The service that answers, unless it is a background one of an older installation, which is stopped."""
    known = discovery.running(settings.home)
    if known and known.background and known.version != plait.__version__:
        stop(settings)
        return None
    return known


def _started(settings: Settings, folder: Path, turn: FileLock, end: float) -> ServerAddress:
    """Wait for the process that holds the home to answer; if there is none, start a service.

    Raises: ServiceNotStarted.
    """
    while True:
        if known := _current(settings):
            return known
        if not discovery.is_claimed(settings.home):
            try:
                return _start(settings, folder, turn, end)
            except ServiceNotStarted as exc:
                # Another process started one without waiting, and it came up meanwhile.
                if exc.reason != ServerAlreadyRunning.reason:
                    raise
        if time.monotonic() > end:
            raise _timed_out(folder, settings.embedded.start_timeout_s)
        time.sleep(POLL_S)


def stop(settings: Settings) -> bool:
    """End the service of `settings.home` and wait until it is gone, with its servers; False when none ran.

    Raises: ServiceNotStarted, when it does not end.
    """
    known = _known(settings)
    if known is None:
        return False
    identity = process.identify(known.pid)
    steps = (
        Step(signal.SIGTERM, settings.server.drain_s + STOP_MARGIN_S),
        Step(signal.SIGKILL, 5.0),
    )
    # Claimed, so the pid is the server's and no other's: its lock goes with it.
    if identity is not None and not process.stop(identity, steps):
        raise ServiceNotStarted(
            f"process {known.pid} does not end; end it with `kill -9 {known.pid}`", pid=known.pid
        )
    _wait_released(settings.home)
    return True


def _known(settings: Settings) -> ServerAddress | None:
    """The address that serves the home, after waiting for a start in progress. None: there is none."""
    folder = discovery.folder(settings.home)
    if not folder.is_dir():
        return None
    end = time.monotonic() + settings.embedded.start_timeout_s
    with FileLock(folder / "start") as turn:
        while True:
            # The one that is being started holds the turn until it answers.
            starting = not turn.try_acquire(shared=True)
            claimed = discovery.is_claimed(settings.home)
            known = discovery.read(settings.home) if claimed else None
            if known is not None or not (claimed or starting) or time.monotonic() > end:
                return known
            turn.release()
            time.sleep(POLL_S)


def _wait_released(home: Path) -> None:
    while discovery.is_claimed(home):
        time.sleep(POLL_S)


def _begin(settings: Settings, folder: Path, turn: FileLock) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        _spawn(settings, folder, writing, turn)
    finally:
        os.close(writing)


def _start(settings: Settings, folder: Path, turn: FileLock, end: float) -> ServerAddress:
    """Start it and wait for its report: its address, or why it could not start."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        try:
            _spawn(settings, folder, writing, turn)
        except OSError as exc:
            raise unusable(folder, exc) from exc
        finally:
            os.close(writing)
        text = b""
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise _timed_out(folder, settings.embedded.start_timeout_s)
            part = pipe.read(65_536)
            if not part:
                raise ServiceNotStarted(
                    f"the service ended before it answered; {folder / LOG} ends:\n{tail(folder / LOG)}",
                    log=folder / LOG,
                )
            text += part
    return _address(json.loads(text))


def _address(report: Mapping[str, Any]) -> ServerAddress:
    if "address" in report:
        return ServerAddress(**report["address"])
    raise ServiceNotStarted.because(
        str(report["reason"]), str(report["message"]), report["metadata"]
    )


def _spawn(settings: Settings, folder: Path, fd: int, turn: FileLock) -> None:
    """`turn` is the new process's too, until it answers: the process that started it may be gone by then."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON}
    env["PLAIT_HOME"] = str(settings.home)
    # glibc's arenas, one a thread, keep what others could use: 12 MB of a service at rest.
    env.setdefault("MALLOC_ARENA_MAX", "1")
    config = {
        "config": str(settings.source.absolute()) if settings.source else "",
        "turn": turn.fd,
    }
    detached.start(
        "server.process.background:run",
        folder,
        fd,
        config,
        log=folder / LOG,
        env=env,
        also=(turn.fd,),
    )


def _timed_out(folder: Path, limit_s: float) -> PlaitError:
    return ServiceNotStarted(
        f"the service of this PLAIT_HOME did not answer within {limit_s:g} s; run again to wait on, or "
        f"raise `embedded.start_timeout_s`; its log is {folder / LOG}",
        log=folder / LOG,
    )
