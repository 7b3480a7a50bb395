"""A TCP proxy before a store, which a test cuts or lets fall silent: how a network fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


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
