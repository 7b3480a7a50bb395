"""The connection to the one service of a home: made when it is needed, left when it is idle, made again when
the service restarted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.settings import Settings

    Connect = Callable[[], AbstractAsyncContextManager[AsyncPlaitClient]]

T = TypeVar("T")

# An agent thinks for longer than this between two calls; a service that is to leave when nobody asks
# should not see us hold on to it.
IDLE_S = 60.0
TRIES = 3
# Calls of one agent at a time; the others wait their turn.
AT_ONCE = 8


class _Link:
    """One connection, held by a task of its own: who enters it must be who leaves it."""

    def __init__(self, connect: Connect) -> None:
        self.client: asyncio.Future[AsyncPlaitClient] = asyncio.get_running_loop().create_future()
        self.users = 0
        self.calls = 0
        self._left = asyncio.Event()
        self.task = asyncio.create_task(self._hold(connect), name="connection to the service")

    async def _hold(self, connect: Connect) -> None:
        try:
            async with connect() as client:
                self.client.set_result(client)
                await self._left.wait()
        except Exception as exc:
            if not self.client.done():
                self.client.set_exception(exc)
                self.client.exception()  # nobody may be waiting any more
        finally:
            self.client.cancel()

    def leave(self) -> None:
        self._left.set()


class Service:
    def __init__(self, connect: Connect, idle_s: float = IDLE_S) -> None:
        self._connect = connect
        self._idle_s = idle_s
        self._link: _Link | None = None
        self._old: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ask(self, work: Callable[[AsyncPlaitClient], Awaitable[T]]) -> T:
        """What `work` answers. It is done again, over a new connection, when the service has gone away;
        so it must be safe to repeat. Raises: what `work` and the connection raise."""
        async with self._turns:
            for left in reversed(range(TRIES)):
                link = self._current()
                link.users += 1
                try:
                    client = await asyncio.shield(link.client)
                    return await work(client)
                except Exception as exc:
                    if not _has_gone(exc):
                        raise
                    self._drop(link)
                    if not left:
                        raise
                finally:
                    link.users -= 1
                    link.calls += 1
                    self._leave_when_idle(link)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        if self._link is not None:
            self._drop(self._link)
        for task in self._old:
            task.cancel()
        await asyncio.gather(*self._old, return_exceptions=True)

    def _current(self) -> _Link:
        if self._link is None or self._link.task.done():
            self._link = _Link(self._connect)
        return self._link

    def _drop(self, link: _Link) -> None:
        """Use `link` no more; calls that are under way on it end by themselves."""
        if self._link is link:
            self._link = None
        self._old.add(link.task)
        link.task.add_done_callback(self._old.discard)
        if not link.users:
            link.leave()

    def _leave_when_idle(self, link: _Link) -> None:
        if link.users:
            return
        if link is not self._link:
            link.leave()
            return
        seen = link.calls

        def look() -> None:
            if link is self._link and not link.users and link.calls == seen:
                self._drop(link)

        asyncio.get_running_loop().call_later(self._idle_s, look)


def _has_gone(exc: Exception) -> bool:
    """Whether the service ended under the call, or before it."""
    from plait.client.errors import PlaitRpcError
    from plait.client.transport import may_retry
    from plait.domain.errors import ServerNotAnswering

    return isinstance(exc, ServerNotAnswering) or (
        isinstance(exc, PlaitRpcError) and may_retry(exc)
    )


def of(settings: Settings) -> Service:
    """The service of `settings.home`, started when none runs."""

    def connect() -> AbstractAsyncContextManager[AsyncPlaitClient]:
        from server.local import connected  # the first call pays for gRPC, not the handshake

        return connected(settings)

    return Service(connect)
