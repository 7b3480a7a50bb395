"""TCP proxies before both stores, which a test cuts or lets fall silent: how a network fails."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from graph.server import embedded as graph
from plait.settings import load
from tests.processes import PATIENT
from vector.server import embedded as postgres


class Proxy:
    """Passes bytes on to `host:port`. Made by `proxy_to`; its own port stays the same."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._to = host, port
        self.port = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def fall_silent(self) -> None:
        """Connections are taken and nothing is answered, on the old ones neither."""
        self._flows.clear()

    def speak(self) -> None:
        self._flows.set()

    async def cut(self) -> None:
        """Nobody listens any more, and what was connected is closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        await self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._flows.wait()
            back, forth = await asyncio.open_connection(self._host, self._to)
            self._writers.add(forth)
            ways = [
                asyncio.ensure_future(self._pass(reader, forth)),
                asyncio.ensure_future(self._pass(back, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                self._writers.discard(forth)
                forth.close()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def proxy_to(host: str, port: int) -> AsyncIterator[Proxy]:
    made = Proxy(host, port)
    await made.open()
    try:
        yield made
    finally:
        await made.close()


@dataclass(frozen=True, slots=True)
class Behind:
    """Both stores as external ones, each behind its proxy. `environment`: what leads Plait there."""

    environment: dict[str, str]
    dsn: str  # past the proxy
    truth: Proxy
    graph: Proxy
    postgres_pid: int
    graph_pid: int


@asynccontextmanager
async def stores_behind_proxies(home: Path) -> AsyncIterator[Behind]:
    """PostgreSQL over TCP and a Bolt server, with data of their own under `home`."""
    settings = load(environ={**PATIENT, "PLAIT_HOME": str(home)})
    with (
        await asyncio.to_thread(lambda: postgres.ensure(settings, tcp=True)) as lease,
        await asyncio.to_thread(graph.ensure, settings) as bolt,
    ):
        found = dict(re.findall(r"(\w+)=(\S+)", lease.dsn))
        where = re.fullmatch(r"bolt://(.*):(\d+)", bolt.uri)
        assert where is not None
        async with (
            proxy_to(found["host"], int(found["port"])) as truth,
            proxy_to(where[1], int(where[2])) as links,
        ):
            environment = {
                "PLAIT_HOME": str(home / "served"),
                "PLAIT_POSTGRES__DSN": lease.dsn.replace(
                    f"port={found['port']}", f"port={truth.port}"
                ),
                "PLAIT_GRAPH__URI": f"bolt://127.0.0.1:{links.port}",
                "PLAIT_GRAPH__USER": bolt.writer[0],
                "PLAIT_GRAPH__PASSWORD": bolt.writer[1],
                "PLAIT_GRAPH__READER_USER": bolt.reader[0],
                "PLAIT_GRAPH__READER_PASSWORD": bolt.reader[1],
                "PLAIT_GRAPH__DATABASE": bolt.database,
            }
            yield Behind(environment, lease.dsn, truth, links, lease.pid, bolt.pid)
