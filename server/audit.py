"""The audit log: who wrote, deleted or was refused, when and what, as JSON lines; never a text.

A thread of its own writes, so that a slow disk holds no call up. What can't be written is counted, said once in
the server's log, and in the audit log once it can be written again. docs/audit.md has every field.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plait.domain.errors import PlaitError
from plait.settings import Settings
from plait.supervisor.files import private_folder

logger = logging.getLogger(__name__)

# Lines that may wait for the disk; then they are counted as lost.
WAITING = 10_000
# Refusals of one caller that are told one by one in a minute; the rest is a number. So a stranger who
# knocks without end can't push everything else out of the files that are kept.
REFUSALS_A_MINUTE = 60
MAX_CALLERS = 1000
MAX_NAMED = 100  # ids and repositories in a line
CLOSE_S = 5.0
LEAST_BYTES = 64 * 1024
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """One call. `refused`: it was turned away, whatever it asked for. `peer`: `socket`, or `tcp` and the
    address. `count`: how many ids there are; `ids` has the first hundred."""

    caller: str
    peer: str
    method: str
    code: str
    reason: str = ""
    refused: bool = False
    tenant: str = ""
    repositories: Sequence[str] = ()
    ids: Sequence[str] = ()
    count: int = 0
    request_id: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def line(self) -> dict[str, Any]:
        """What is written of it: JSON's types, of bounded length."""
        return {
            "at": _time(self.at),
            "event": "refused" if self.refused else "call",
            "caller": self.caller,
            "peer": self.peer,
            "method": self.method,
            "code": self.code,
            "reason": self.reason,
            "tenant": self.tenant,
            "repositories": [name[:256] for name in self.repositories[:MAX_NAMED]],
            "ids": list(self.ids[:MAX_NAMED]),
            "count": self.count,
            "request_id": self.request_id[:128],
        }


# What is written: a call, which becomes a line in the writing thread, or an event of the log's own.
_Line = Entry | dict[str, Any]


@dataclass(slots=True)
class _Refusals:
    """Of one caller, since `since`."""

    since: float
    logged: int = 0
    more: int = 0


class Audit:
    """Appends to `path`, which is moved to `path.1` and so on when it would pass `max_bytes`; `keep` of
    these stay. `record` may be called from any thread and returns at once."""

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        keep: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._queue: queue.Queue[_Line | None] = queue.Queue(WAITING)
        self._file = _File(path, max_bytes, keep)
        self._refusals: dict[str, _Refusals] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def record(self, entry: Entry) -> None:
        """Have `entry` written soon. Never raises, and waits for no disk."""
        with self._lock:
            self._sum_up()
            if entry.refused and not self._tells(entry.caller):
                return
            self._put(entry)

    def close(self) -> None:
        """Write what waits, for some seconds at most."""
        with self._lock:
            self._sum_up(everything=True)
            thread, self._thread = self._thread, None
            if thread is None:
                return
            try:
                self._queue.put(None, timeout=CLOSE_S)
            except queue.Full:
                return
        thread.join(CLOSE_S)

    def _tells(self, caller: str) -> bool:
        """Whether one more refusal of `caller` gets a line of its own."""
        if caller not in self._refusals and len(self._refusals) >= MAX_CALLERS:
            caller = ""  # together with others
        seen = self._refusals.setdefault(caller, _Refusals(self._clock()))
        if seen.logged < REFUSALS_A_MINUTE:
            seen.logged += 1
            return True
        seen.more += 1
        return False

    def _sum_up(self, *, everything: bool = False) -> None:
        """A line for each caller whose minute is over and who was refused more often than told."""
        over = self._clock() - 60
        for caller, seen in list(self._refusals.items()):
            if everything or seen.since <= over:
                del self._refusals[caller]
                if seen.more:
                    self._put(_event("refusals", caller=caller, count=seen.more))

    def _put(self, line: _Line) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="audit", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._file.lost(1)

    def _write(self) -> None:
        while True:
            lines, ended = _taken(self._queue)
            if lines:
                self._file.append(lines)
            if ended:
                self._file.close()
                return


def _taken(waiting: queue.Queue[_Line | None]) -> tuple[list[_Line], bool]:
    """All that waits, at least one; and whether the end was among it."""
    lines: list[_Line] = []
    one = waiting.get()
    while one is not None:
        lines.append(one)
        try:
            one = waiting.get_nowait()
        except queue.Empty:
            return lines, False
    return lines, True


class _File:
    """The file and those before it; used by the writing thread, `lost` by any."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._fd = -1
        self._torn = False  # its last line has no end
        self._lost = 0
        self._lost_lock = threading.Lock()
        self._failing = False

    def append(self, lines: Sequence[_Line]) -> None:
        """Write `lines`, or count them as lost and say so once."""
        missing = self._take_lost()
        logged = [_event("lost", count=missing)] if missing else []
        try:
            for line in (*logged, *lines):
                self._append(line.line() if isinstance(line, Entry) else line)
                missing = 0
        except (OSError, PlaitError) as exc:
            self.lost(len(lines) + missing)
            self._say_failing(exc)
            self.close()
            return
        if self._failing:
            self._failing = False
            logger.warning("the audit log is written again", extra={"path": str(self._path)})

    def lost(self, count: int) -> None:
        with self._lost_lock:
            self._lost += count

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take_lost(self) -> int:
        with self._lost_lock:
            lost, self._lost = self._lost, 0
            return lost

    def _say_failing(self, exc: Exception) -> None:
        if not self._failing:
            self._failing = True
            logger.error(
                "the audit log can't be written; calls go on without it",
                extra={"path": str(self._path), "error": str(exc)},
            )

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._enter()
        try:
            if os.fstat(self._fd).st_size + len(data) > self._max_bytes:
                self._rotate()
                self._enter()
            self._write(b"\n" + data if self._torn else data)
        finally:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _write(self, data: bytes) -> None:
        while data:
            written = os.write(self._fd, data)  # raises, where the disk is full
            data = data[written:]
            self._torn = bool(data)

    def _enter(self) -> None:
        """Open and lock the file that `path` names: another process may write to it and move it, too."""
        while True:
            if self._fd < 0:
                if not self._path.parent.is_dir():
                    private_folder(self._path.parent)
                self._fd = os.open(self._path, _FLAGS, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                    return
            except FileNotFoundError:
                pass
            self.close()

    def _rotate(self) -> None:
        """path → path.1 → … → path.keep. Whoever waits for the lock finds it moved, and opens a new one."""
        for number in range(self._keep - 1, 0, -1):
            old = self._path.with_name(f"{self._path.name}.{number}")
            if old.exists():
                old.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self.close()
        self._torn = False


def _event(name: str, **more: object) -> dict[str, Any]:
    return {"at": _time(datetime.now(UTC)), "event": name, **more}


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def path_of(settings: Settings) -> Path:
    """Where the audit log of `settings` is."""
    file = settings.audit.file
    return Path(file).expanduser() if file else settings.home / "server" / "audit.jsonl"


def cannot_be_written(path: Path) -> str:
    """Why not, as far as can be seen without writing; "": nothing speaks against it."""
    nearest = next(one for one in (path, *path.parents) if one.exists() or one.is_symlink())
    if nearest.is_symlink():
        return f"{nearest} is a link"
    if nearest == path and not path.is_file():
        return "it is no file"
    if nearest not in (path, path.parent) and nearest.is_file():
        return f"{nearest} is no folder"
    if not os.access(nearest, os.W_OK):
        return f"this account may not write to {nearest}"
    disk = os.statvfs(nearest)
    if disk.f_bavail * disk.f_frsize < LEAST_BYTES:
        return "its disk is full"
    return ""


def open_audit(settings: Settings) -> Audit | None:
    """None: it is switched off. Opens no file before there is something to write."""
    options = settings.audit
    return Audit(path_of(settings), options.max_bytes, options.keep) if options.enabled else None
