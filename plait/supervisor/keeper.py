"""The keeper: one small process that owns one server for as long as it has users."""

from __future__ import annotations

import importlib
import json
import logging
import os
import queue
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from plait.domain.errors import EmbeddedServerFailed, PlaitError
from plait.supervisor import process, state
from plait.supervisor.child import ChildServer, Diagnosis, StartAgain
from plait.supervisor.files import open_log, read_json, tail, trim, unusable, write_private
from plait.supervisor.locks import FileLock
from plait.supervisor.process import Identity
from plait.supervisor.state import Phase, State

logger = logging.getLogger(__name__)

# Pauses before each try of one start. Guessed: long enough for ports and shared memory of a dead
# server to be freed, short enough for a waiting user.
BACKOFF_S = (0.0, 0.2, 0.5, 1.0, 2.0)
# A server that lived this long died of something new: its restarts are counted from zero again.
STABLE_S = 60.0
MAX_DEATHS = 5
PATIENCE = 10

UNUSED, DIED, STOP = "unused", "died", "stop"


def keep(folder: Path, config: Mapping[str, Any], fd: int) -> int:
    """What `boot.py` runs: keep the server that `config["entry"]` makes. `fd`: `keeper.lock`, locked."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, function = str(config["entry"]).partition(":")
    server = getattr(importlib.import_module(module), function)(folder, config)
    return Keeper(
        server,
        folder,
        FileLock(folder / state.KEEPER_LOCK, fd=fd),
        linger_s=float(config["linger_s"]),
        start_timeout_s=float(config["start_timeout_s"]),
    ).run()


class Keeper:
    """`lock`: `keeper.lock`, taken by the user who started us and handed down."""

    def __init__(
        self,
        server: ChildServer,
        folder: Path,
        lock: FileLock,
        *,
        linger_s: float,
        start_timeout_s: float,
    ) -> None:
        self._server = server
        self._folder = folder
        self._lock = lock
        self._linger_s = linger_s
        self._start_timeout_s = start_timeout_s
        self._users = FileLock(folder / state.USERS_LOCK)
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._me = process.identify(os.getpid())
        self._child: subprocess.Popen[bytes] | None = None
        self._identity: Identity | None = None
        self._started_at = 0.0
        self._deaths = 0
        self._restarts = 0

    def run(self) -> int:
        """Run the server until it has no user; 0, or 1 when it could not be run."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._events.put(STOP))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            self._publish(Phase.STARTING)
            self._end_orphan()
            self._server.prepare()
            self._bring_up()
            threading.Thread(target=self._watch_users, daemon=True).start()
            self._serve()
            (self._folder / state.FILE).unlink(missing_ok=True)
            return 0
        except PlaitError as exc:
            return self._fail(exc)
        except OSError as exc:
            return self._fail(unusable(self._folder, exc))
        except Exception as exc:  # users must get any error rather than wait
            logger.exception("keeper failed")
            return self._fail(EmbeddedServerFailed(f"the keeper of {self._server.name}: {exc!r}"))
        finally:
            self._stop_child()
            self._server.clean()
            # In this order: the next holder of `users.lock` must find `keeper.lock` free.
            self._lock.close()
            self._users.close()

    # -- life ---------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Handle events until the server is no longer wanted."""
        while True:
            event = self._events.get()
            if event != DIED:
                return
            self._child_died()
            self._publish(Phase.RESTARTING)
            self._bring_up()

    def _child_died(self) -> None:
        lived_s = time.monotonic() - self._started_at
        self._deaths = 1 if lived_s > STABLE_S else self._deaths + 1
        self._restarts += 1
        code = self._child.returncode if self._child else None
        logger.warning("%s died", self._server.name, extra={"code": code, "lived_s": lived_s})
        if self._deaths > MAX_DEATHS:
            raise EmbeddedServerFailed(
                f"{self._server.name} died {self._deaths} times in a row, at last with status {code}; "
                f"its log {self._server.log} ends:\n{tail(self._server.log)}"
            )

    def _bring_up(self) -> None:
        """Start the server and publish it, trying a few times; more often while it is known to wait for
        something that passes. Raises: PlaitError."""
        end = time.monotonic() + self._start_timeout_s
        for tries, pause in enumerate(chain(BACKOFF_S, repeat(BACKOFF_S[-1])), start=1):
            time.sleep(pause)
            failed = self._try_start()
            if failed is None:
                break
            if tries >= len(BACKOFF_S) and not (failed.passing and time.monotonic() < end):
                raise failed.error
        self._started_at = time.monotonic()
        self._publish(Phase.READY)
        child = self._child
        assert child is not None
        threading.Thread(target=self._watch_child, args=(child,), daemon=True).start()

    def _try_start(self) -> Diagnosis | None:
        """Start the server once; why it failed, if another try may help. Raises: PlaitError."""
        try:
            self._start_once()
            return None
        except StartAgain as exc:
            self._stop_child()
            logger.warning("start failed: %s", exc)
            error = EmbeddedServerFailed(f"{self._server.name} did not start: {exc}")
            return Diagnosis(error, permanent=False)
        except _Died as exc:
            self._stop_child()
            diagnosis = self._server.diagnose(exc.log_tail)
            if diagnosis is not None and diagnosis.permanent:
                raise diagnosis.error from exc
            if exc.code is None:  # it runs and won't answer: a second one would not either
                raise self._failure(exc) from exc
            logger.warning("start failed", extra={"code": exc.code})
            return diagnosis or Diagnosis(self._failure(exc), permanent=False)

    def _failure(self, died: _Died) -> EmbeddedServerFailed:
        how = "did not answer in time" if died.code is None else f"ended with status {died.code}"
        return EmbeddedServerFailed(
            f"{self._server.name} {how}; its log {self._server.log} ends:\n{died.log_tail}"
        )

    def _start_once(self) -> None:
        """Spawn the server and wait until it answers. Raises: _Died, PlaitError."""
        mark = secrets.token_hex(8)
        trim(self._server.log)
        launch = self._server.launch(mark)
        # Written before the start: should we be killed in between, the mark still proves the child ours.
        write_private(self._folder / state.CHILD_FILE, json.dumps({"mark": mark}))
        offset = _size(self._server.log)
        with open_log(self._server.log) as log:
            # From the main thread: the kernel's death signal follows the thread that forked.
            self._child = subprocess.Popen(
                list(launch.args),
                env=dict(launch.env),
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=process.dies_with_parent(self._server.death_signal),
                **(launch.account.popen() if launch.account else {}),
            )
        self._identity = process.identify(self._child.pid)
        if self._identity is not None:
            record = {"mark": mark, "pid": self._identity.pid, "started": self._identity.started}
            write_private(self._folder / state.CHILD_FILE, json.dumps(record))
        self._wait_ready(self._child, offset)

    def _wait_ready(self, child: subprocess.Popen[bytes], offset: int) -> None:
        # Users give up sooner; a recovery that is under way must not be cut off and begun again.
        end = time.monotonic() + PATIENCE * self._start_timeout_s
        pause = 0.01
        while not self._server.ready(child.pid):
            if child.poll() is not None or time.monotonic() > end:
                raise _Died(child.returncode, tail(self._server.log, offset=offset))
            time.sleep(pause)
            pause = min(0.05, pause * 1.2)

    def _stop_child(self) -> None:
        if self._identity is not None and not process.stop(self._identity, self._server.stop_steps):
            logger.error("server would not stop", extra={"pid": self._identity.pid})
        if self._child is not None:
            self._child.wait()
        self._child = self._identity = None
        (self._folder / state.CHILD_FILE).unlink(missing_ok=True)

    def _end_orphan(self) -> None:
        """Stop the server that a killed keeper left, and no other process."""
        record = read_json(self._folder / state.CHILD_FILE)
        if record is None:
            return
        if "pid" in record:
            orphan = Identity(int(record["pid"]), str(record.get("started")))
            orphans = [orphan] if process.alive(orphan) else []
        else:
            orphans = process.find_marked(str(record.get("mark")))
        for orphan in orphans:
            logger.warning("stopping an orphan", extra={"pid": orphan.pid})
            process.stop(orphan, self._server.stop_steps)
        (self._folder / state.CHILD_FILE).unlink(missing_ok=True)

    # -- watching ------------------------------------------------------------------------------

    def _watch_child(self, child: subprocess.Popen[bytes]) -> None:
        child.wait()
        if child is self._child:
            self._events.put(DIED)

    def _watch_users(self) -> None:
        """Say UNUSED once `users.lock` can be held alone, and keep holding it: no user can come
        between the last look and the end. Sleeps in the kernel until then: an idle keeper costs no CPU.
        """
        while True:
            self._users.acquire()
            if self._linger_s <= 0:
                break
            self._users.release()
            time.sleep(self._linger_s)
            if self._users.try_acquire():
                break
        self._events.put(UNUSED)

    # -- telling ---------------------------------------------------------------------------------

    def _publish(self, phase: Phase, error: PlaitError | None = None) -> None:
        ready = phase is Phase.READY
        state.publish(
            self._folder,
            State(
                phase=phase,
                since=time.time(),
                keeper=self._me,
                child=self._identity,
                endpoint=self._server.endpoint() if ready else {},
                reason=error.reason if error else "",
                message=error.message if error else "",
                restarts=self._restarts,
            ),
        )

    def _fail(self, error: PlaitError) -> int:
        logger.error("giving up: %s", error.reason)
        try:
            self._publish(Phase.FAILED, error)
        except OSError:
            logger.exception("cannot publish the failure")
        return 1


class _Died(Exception):
    """`code` is None when the server runs but does not answer."""

    def __init__(self, code: int | None, log_tail: str) -> None:
        super().__init__(code)
        self.code = code
        self.log_tail = log_tail


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
