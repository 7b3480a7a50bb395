"""PostgreSQL as a keeper's child: its data folder, command line, readiness and known failures."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.domain.errors import EmbeddedServerFailed, StoreFull
from plait.supervisor.account import Account
from plait.supervisor.child import Diagnosis, Launch
from plait.supervisor.files import secret
from plait.supervisor.home import check_reach
from plait.supervisor.ports import LOOPBACK, free_ports
from plait.supervisor.process import Step
from vector.server import pgdata
from vector.server.pgdata import PgTools

# sun_path holds 104 bytes on macOS, 108 on Linux; the socket's own name and a NUL take 15.
MAX_SOCKET_FOLDER = 104 - len("/.s.PGSQL.5432") - 1
# What both unix_socket_directories (a list, by commas) and a DSN take without quoting.
PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*\Z")
SOCKET_PORT = 5432  # a name in a private folder, not a TCP port

# Why each: measured or reasoned for one laptop user, many short runs, bulk loads now and then.
TUNING: Mapping[str, str] = {
    "max_connections": "64",
    "maintenance_work_mem": "256MB",  # an HNSW graph of 100k 384-d halfvecs is built in memory
    "work_mem": "16MB",
    "max_wal_size": "1GB",  # a first import makes no forced checkpoint
    "min_wal_size": "32MB",  # at least two segments of the log, which have 16 MB each in homes of before
    "wal_recycle": "off",  # what a checkpoint covers is removed: 181 MB after Django, kept for ever otherwise
    "checkpoint_timeout": "15min",
    "wal_level": "minimal",  # nobody replicates; a load into a new table writes no WAL
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",  # one process less
    "io_method": "sync",  # three worker processes less; a laptop's store is in the page cache
    "jit": "off",  # costs more than it saves on queries of milliseconds
    "random_page_cost": "1.1",
    "autovacuum_max_workers": "1",
    "synchronous_commit": "on",
    "update_process_title": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Neither statements nor their values reach the log: they are users' text.
    "log_min_error_statement": "panic",
    "log_min_messages": "warning",
    "log_error_verbosity": "terse",
    "log_checkpoints": "off",
}


class PostgresChild:
    name = "PostgreSQL"
    # Fast shutdown, then immediate, then the last resort. A checkpoint of 1 GB takes its time.
    stop_steps: Sequence[Step] = (
        Step(signal.SIGINT, 30.0),
        Step(signal.SIGQUIT, 5.0),
        Step(signal.SIGKILL, 5.0),
    )
    death_signal = signal.SIGINT

    def __init__(self, folder: Path, *, binaries: Path, account: Account | None, tcp: bool) -> None:
        self._folder = folder
        self._account = account
        self._tcp = tcp
        self._wheel = binaries
        self._tools = PgTools(binaries, account)
        self._data = folder / "data"
        self._sockets: Path | None = None
        self._port = SOCKET_PORT
        self.log = folder / "server.log"

    # -- the keeper's questions -------------------------------------------------------------------

    def prepare(self) -> None:
        check_reach(self._folder, self._account)
        self._tools = pgdata.reachable(self._wheel, self._folder, self._account)
        pgdata.ensure(self._data, self._tools, self._folder / "password")

    def launch(self, mark: str) -> Launch:
        if self._tcp:
            (self._port,) = free_ports(1)
            listen = {"listen_addresses": LOOPBACK, "unix_socket_directories": ""}
        else:
            listen = {"listen_addresses": "", "unix_socket_directories": str(self._socket_folder())}
        options = {
            **TUNING,
            **listen,
            "port": str(self._port),
            "unix_socket_permissions": "0700",
            "shared_buffers": _shared_buffers(),
            "dynamic_shared_memory_type": _shared_memory_type(),
            "plait.mark": mark,
        }
        args = [str(self._tools.bin / "postgres"), "-D", str(self._data)]
        for key, value in options.items():
            args += ["-c", f"{key}={value}"]
        env = pgdata.environment()
        stale = _stale_pid(self._data)
        if stale:
            # The number may be an unrelated process's by now. We hold the folder's lock and have ended
            # our own orphan, so PostgreSQL is told not to take it for a rival; that nobody is attached
            # to the data, it still checks by its shared memory.
            env["PG_GRANDPARENT_PID"] = stale
        return Launch(args=args, env=env, cwd=self._folder, account=self._account)

    def ready(self, pid: int) -> bool:
        status = _pid_file(self._data)
        if len(status) < 8 or status[0] != str(pid) or status[7] != "ready":
            return False
        done = self._query("SELECT 1")
        if b"password authentication failed" in done.stderr:
            raise EmbeddedServerFailed(
                f"the password in {self._folder / 'password'} is not the server's; "
                "delete that file and run again: a new password is set"
            )
        return done.returncode == 0 and done.stdout.strip() == b"1"

    def endpoint(self) -> Mapping[str, Any]:
        return {
            "host": LOOPBACK if self._tcp else str(self._sockets),
            "port": self._port,
            "version": self._tools.version(),
            "pgvector": self._tools.pgvector(),
        }

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        if pgdata.disk_full(log_tail):
            full = StoreFull(
                f"no space is left on the disk under {self._folder}; free some, then run again "
                "(no data is lost)",
                path=self._folder,
            )
            return Diagnosis(full, permanent=True)
        if "pre-existing shared memory block" in log_tail:
            dying = EmbeddedServerFailed(
                f"processes of the PostgreSQL that ended in {self._folder} are still at work, at a slow "
                f"disk perhaps; run again when they are done. Its log ends:\n{log_tail}"
            )
            return Diagnosis(dying, permanent=False, passing=True)
        if "could not bind" in log_tail or "could not create any" in log_tail:
            taken = EmbeddedServerFailed(
                f"PostgreSQL found no free port or socket to listen on; its log ends:\n{log_tail}"
            )
            return Diagnosis(taken, permanent=False)
        return None

    def clean(self) -> None:
        if self._sockets is not None and self._sockets.parent != self._folder:
            shutil.rmtree(self._sockets, ignore_errors=True)
        self._sockets = None

    # -- parts --------------------------------------------------------------------------------------

    def _socket_folder(self) -> Path:
        """A folder only the server's account enters: ours, or one in /tmp when ours has too long or
        odd a name. The same for all starts under one keeper."""
        if self._sockets is not None:
            return self._sockets
        here = self._folder / "run"
        if PLAIN.match(str(here)) and len(os.fsencode(here)) <= MAX_SOCKET_FOLDER:
            # Whatever is in it is of a server that is gone.
            shutil.rmtree(here, ignore_errors=True)
            here.mkdir(0o700)
        else:
            # A fresh random name: nobody can have made it before us.
            here = Path(tempfile.mkdtemp(prefix="plait-", dir="/tmp"))
        if self._account is not None:
            os.chown(here, *self._account.owner)
        self._sockets = here
        return here

    def _query(self, sql: str) -> subprocess.CompletedProcess[bytes]:
        """One statement through the real door: socket, password, database."""
        where = f"host={LOOPBACK if self._tcp else self._sockets} port={self._port}"
        return subprocess.run(
            [
                str(self._wheel / "bin" / "psql"),
                *("-X", "-A", "-t", "-q", "-w", "-c", sql),
                f"{where} dbname=plait user=plait connect_timeout=5",
            ],
            env={
                **pgdata.environment(),
                "PGPASSWORD": secret(self._folder / "password"),
                "PGSSLMODE": "disable",
            },
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )


def _pid_file(data: Path) -> list[str]:
    """Lines of postmaster.pid: pid, data, start, port, socket folder, host, shared memory, status."""
    try:
        return [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
    except (OSError, UnicodeDecodeError):
        return []


def _stale_pid(data: Path) -> str:
    first = (_pid_file(data) or [""])[0].lstrip("-")
    return first if first.isdigit() else ""


def _shared_buffers() -> str:
    """A sixteenth of memory, 32 to 256 MB: pages are touched only when used."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(256, max(32, memory // 16 // 2**20))}MB"


def _shared_memory_type() -> str:
    """Parallel index builds share memory in /dev/shm, which containers give 64 MB: use files then."""
    try:
        space = os.statvfs("/dev/shm")  # noqa: S108
    except OSError:
        return "mmap" if os.uname().sysname == "Linux" else "posix"
    return "posix" if space.f_bavail * space.f_frsize >= 2**29 else "mmap"
