"""The thing under test: `plait serve` as a process, the embedded stores, and the ways to end them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.soak.vectors import VectorService
from graph.bolt import Endpoint
from graph.server import embedded as graph_embedded
from plait.client import discovery
from plait.domain.errors import PlaitError
from plait.settings import Settings, load
from plait.supervisor import process, state
from plait.supervisor.lease import wait_stopped
from vector.server import embedded as postgres_embedded

START_LIMIT_S = 90.0
STORES = ("postgres", "graph")


class SoakFailed(Exception):
    """The soak itself cannot go on: no finding about Plait until somebody has looked."""


class Service:
    """One `PLAIT_HOME` with its server. The harness holds the stores too, so that a killed server finds
    them running; `everything` dies only where a fault says so."""

    def __init__(self, base: Path) -> None:
        """`base`: a `workplace`."""
        self.disk = base / "disk"
        self.home = home = self.disk / "home"
        self._vectors = VectorService()
        self.environ = {
            "PLAIT_HOME": str(home),
            "PLAIT_SERVER__DRAIN_S": "2",
            "PLAIT_GRAPH__FOLLOW": "true",  # faults are to meet a projection at work
            # Upkeep is the steward's to ask for, and then there has to be something to do.
            "PLAIT_MEMORY__AUTOMATIC": "false",
            "PLAIT_MEMORY__BUDGET_TOKENS": "100",
            "PLAIT_MEMORY__PIN_RECENT": "0",
            **self._vectors.environ,
        }
        self.settings: Settings = load(environ=self.environ)
        self.restarts = 0
        self.armed = ""
        self._process: asyncio.subprocess.Process | None = None
        self._log = (base / "serve.log").open("ab")
        self._leases: list[Any] = []

    @property
    def target(self) -> str:
        """The socket: the same through all restarts."""
        return f"unix:{discovery.socket_path(self.home)}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the server. Raises: SoakFailed, when none runs."""
        if self._process is None:
            raise SoakFailed("no server runs")
        return self._process.pid

    # -- life --------------------------------------------------------------------------------------------

    async def open(self) -> None:
        for module in (postgres_embedded, graph_embedded):
            self._leases.append(await asyncio.to_thread(module.ensure, self.settings))
        await self.start()

    async def start(self, failpoints: str = "") -> None:
        """Start the server and wait until it answers. Raises: SoakFailed."""
        self.armed = failpoints
        end = time.monotonic() + START_LIMIT_S
        while True:
            if await self._start_once(failpoints):
                return
            if failpoints:
                # It died of its failpoint before it answered, which is what it was armed for.
                failpoints = ""
                continue
            if time.monotonic() > end:
                raise SoakFailed(f"the server does not start; see {self._log.name}")
            await asyncio.sleep(0.2)

    async def _start_once(self, failpoints: str) -> bool:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("PLAIT_")}
        environ |= self.environ
        if failpoints:
            environ["PLAIT_FAILPOINTS"] = failpoints
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "server", "--json"),
            stdout=subprocess.PIPE,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
        assert self._process.stdout is not None
        self.restarts += 1
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), START_LIMIT_S)
        except TimeoutError:
            self._process.kill()
            line = b""
        if line:
            return True
        await self._process.wait()
        return False

    async def ended(self, limit_s: float) -> bool:
        """Whether the server has ended within `limit_s` seconds."""
        if self._process is None:
            return True
        try:
            await asyncio.wait_for(self._process.wait(), limit_s)
        except TimeoutError:
            return False
        return True

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def close(self) -> None:
        """Stop the server as a user does, and the stores with it. Raises: SoakFailed."""
        if self.alive:
            assert self._process is not None
            self._process.send_signal(signal.SIGTERM)
            if not await self.ended(30):
                await self.kill()
        for lease in self._leases:
            lease.close()
        self._log.close()
        self._vectors.close()
        for store in STORES:
            if not await asyncio.to_thread(wait_stopped, self.home / store, 60.0):
                raise SoakFailed(f"{self.home / store} is still kept")

    # -- what can be killed --------------------------------------------------------------------------------

    def pids(self, store: str) -> dict[str, int]:
        """`keeper` and `child` of a store, those that live."""
        current = state.read(self.home / store)
        if current is None:
            return {}
        parts = {"keeper": current.keeper, "child": current.child}
        return {name: p.pid for name, p in parts.items() if p is not None and process.alive(p)}

    def children(self, module: str) -> list[int]:
        """Pids of the server's child processes that run `module`."""
        if self._process is None:
            return []
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self._process.pid and module in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
        return found

    def signal_store(self, store: str, part: str, number: signal.Signals) -> bool:
        pid = self.pids(store).get(part)
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    async def revive_stores(self) -> None:
        """Wait until both stores answer, started anew where their keepers are gone. Raises: SoakFailed."""
        end = time.monotonic() + START_LIMIT_S
        for lease in self._leases:
            while True:
                try:
                    await asyncio.to_thread(lease.refresh)
                    break
                except PlaitError as exc:
                    if time.monotonic() > end:
                        raise SoakFailed(f"a store does not come back: {exc}") from exc
                    await asyncio.sleep(0.2)

    def graph_endpoint(self) -> Endpoint:
        """The graph server, for whoever wants to damage it."""
        lease = self._leases[1]
        return Endpoint(lease.uri, lease.writer, lease.reader, lease.database, 10.0, stays=False)

    # -- the truth, seen past the server -----------------------------------------------------------------------

    async def connect(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        """A connection of the owner. Raises: SoakFailed, when PostgreSQL does not come back."""
        end = time.monotonic() + START_LIMIT_S
        while True:
            try:
                dsn = self._leases[0].dsn
                return await psycopg.AsyncConnection.connect(
                    dsn, autocommit=True, options="-c search_path=plait,public", connect_timeout=10
                )
            except psycopg.OperationalError as exc:
                if time.monotonic() > end:
                    raise SoakFailed(f"PostgreSQL does not answer: {exc}") from exc
                await asyncio.sleep(0.05)
                await self.revive_stores()

    async def rows(
        self, query: str, params: Mapping[str, Any] | Sequence[Any] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of one read, tried again while the server recovers."""
        end = time.monotonic() + START_LIMIT_S
        while True:
            try:
                async with await self.connect() as conn:
                    cursor = await conn.execute(query, params)
                    return await cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError as exc:
                if time.monotonic() > end:
                    raise SoakFailed(f"PostgreSQL does not answer: {exc}") from exc
                await asyncio.sleep(0.05)


# -- homes ---------------------------------------------------------------------------------------------------

DISK = "1500m"


@contextmanager
def workplace() -> Iterator[tuple[Path, bool]]:
    """A folder with an empty `disk` in it, and whether that is a file system of its own (root only),
    which can be made full. The servers' account can enter both; both go at the end."""
    base = Path(tempfile.mkdtemp(prefix="plait-soak-", dir="/tmp"))
    disk = base / "disk"
    disk.mkdir()
    mounted = False
    if os.geteuid() == 0:
        base.chmod(0o711)
        options = f"size={DISK},mode=711"
        command = ["mount", "-t", "tmpfs", "-o", options, "plait-soak", str(disk)]
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
        disk.chmod(0o711)
    try:
        yield base, mounted
    finally:
        for _ in range(100):
            # A keeper gives up its locks a moment before it is gone.
            command = ["umount", str(disk)]
            if (
                not mounted
                or subprocess.run(command, check=False, capture_output=True).returncode == 0
            ):
                break
            time.sleep(0.1)
        shutil.rmtree(base, ignore_errors=True)


def resize(disk: Path, *, full: bool) -> None:
    """Leave not one block free on the file system of `disk`, or give it its room back."""
    for _ in range(20):
        size = DISK
        if full:
            space = os.statvfs(disk)
            size = str((space.f_blocks - space.f_bfree) * space.f_frsize)
        command = ["mount", "-o", f"remount,size={size}", str(disk)]
        # Refused when a block was written between the look and the change.
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return
    raise SoakFailed(f"{disk} can't be resized")
