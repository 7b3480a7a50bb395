"""A client for a command line: of the server that it names, of the service of this PLAIT_HOME, started if
none runs, or, where `client.autostart` is off, of a server in this process.

Whichever it is, every command speaks the contract over a socket: one path, tested as one.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from plait.client import AsyncPlaitClient, discovery
from plait.client.aio.client import open_channel
from plait.client.calls import knowledge
from plait.client.calls.call import Call
from plait.client.discovery import ServerAddress
from plait.client.errors import PlaitRpcError
from plait.client.transport import Endpoint, may_retry
from plait.domain.errors import ServerNotAnswering
from plait.domain.scope import DEFAULT_TENANT
from plait.settings import Settings

T = TypeVar("T")

SILENCE_S = 5.0
DYING_S = 2.0  # at most from a server's last answer to the release of its home


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[AsyncPlaitClient]:
    """Raises: ServiceNotStarted, HomeUnusable; and as `server.app.open_app`, when it starts a server of its
    own. Calls raise ServerNotAnswering too."""
    if settings.client.server:
        async with AsyncPlaitClient(
            settings.client.server, tenant=_tenant(settings), settings=settings
        ) as client:
            yield client
        return
    async with AsyncExitStack() as stack:
        client = _Following(settings, stack)
        stack.push_async_callback(client.close)
        await client.find()
        yield client


class _Following(AsyncPlaitClient):
    """Of the service of a home, which may end between two calls: then the next one answers, if the call
    may be sent again."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        address = discovery.running(settings.home)
        # Until `find` has been awaited there may be nobody to call: the channel connects on first use.
        super().__init__(
            address.target if address else f"unix:{discovery.socket_path(settings.home)}",
            tenant=_tenant(settings),
        )
        self._address = address
        self._settings = settings
        self._stack = stack
        self._moving = asyncio.Lock()
        if address is not None:
            _say_other_settings(address, settings)

    async def find(self) -> None:
        """Make sure that somebody answers. Raises: as `connected`."""
        if self._address is not None:
            return
        if not self._settings.client.autostart:
            _refuse_silent(self._settings)
            own = await self._stack.enter_async_context(_own_server(self._settings))
            self._stack.push_async_callback(self._move(own))
            return
        from plait.client import service

        self._address = await asyncio.to_thread(service.ensure, self._settings)
        assert self._address is not None
        if self.target != self._address.target:
            self._stack.push_async_callback(self._move(self._address.target))

    def _move(self, target: str) -> Callable[[], Awaitable[None]]:
        """Call `target`, a socket of this home, from now on. Returns what closes the old channel, whose calls
        go on."""
        old, self.target = self._channel, target
        self._channel = open_channel(Endpoint(target))
        return lambda: old.close(None)

    async def _run(self, call: Call[T]) -> T:
        asked = self._address
        try:
            return await self._answered(call)
        except PlaitRpcError as exc:
            lost = call.retry and may_retry(exc) and asked
            if not (lost and asked and await _ends(asked, self._settings, exc)):
                raise
        async with self._moving:
            if self._address is asked:
                self._address = discovery.running(self._settings.home)
                if self._address is not None:
                    # A channel that just failed waits before it connects again: a new one does not.
                    self._stack.push_async_callback(self._move(self._address.target))
                await self.find()
        return await super()._run(call)

    async def _answered(self, call: Call[T]) -> T:
        """The answer to `call`, or, where none comes for some seconds and the server is not even heard to
        live, ServerNotAnswering."""
        answer = asyncio.ensure_future(super()._run(call))
        try:
            done, _ = await asyncio.wait({answer}, timeout=SILENCE_S)
            if not done and self._address is not None:
                await self._listen(self._address)
            return await answer
        finally:
            answer.cancel()

    async def _listen(self, address: ServerAddress) -> None:
        # One that has just started on a busy machine is loading its model, and gets as long as any call
        # without a deadline.
        try:
            await super()._run(knowledge.healthy(self._settings.server.timeout_s))
        except PlaitRpcError as exc:
            if not _has_ended(address, self._settings):
                raise _silent(address, exc) from exc


def _has_ended(address: ServerAddress, settings: Settings) -> bool:
    """Whether the server of `address` is no more, or about to be."""
    return discovery.read(settings.home) != address or not discovery.is_claimed(settings.home)


async def _ends(address: ServerAddress, settings: Settings, error: PlaitRpcError) -> bool:
    """As `_has_ended`; a process that is killed refuses connections some moments before it is gone."""
    end = time.monotonic() + (DYING_S if error.reason == error.code.name else 0.0)
    while not _has_ended(address, settings):
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(0.05)
    return True


def _refuse_silent(settings: Settings) -> None:
    """Raises: ServerNotAnswering, where a server holds the home, says where it listens, and does not."""
    known = discovery.read(settings.home)
    if (
        known is not None
        and not _has_ended(known, settings)
        and not discovery.running(settings.home)
    ):
        raise _not_answering(known, "nobody listens on its socket", "UNAVAILABLE")


def _silent(address: ServerAddress, exc: PlaitRpcError) -> ServerNotAnswering:
    return _not_answering(address, exc.message, exc.reason)


def _not_answering(address: ServerAddress, why: str, cause: str) -> ServerNotAnswering:
    return ServerNotAnswering(
        f"the server of this PLAIT_HOME, process {address.pid}, does not answer ({why}); look at its "
        f"log, or end it with `plait stop` or `kill {address.pid}`",
        pid=address.pid,
        cause=cause,
    )


def _say_other_settings(address: ServerAddress, settings: Settings) -> None:
    if address.background and address.settings not in ("", settings.digest()):
        print(
            "note: the running service was started with other settings; `plait stop`, and the next "
            "command starts it with these",
            file=sys.stderr,
        )


def _tenant(settings: Settings) -> str:
    """What calls say of their tenant: nothing where this command was told nothing, so that the server's
    own setting holds."""
    return "" if settings.scope.tenant == DEFAULT_TENANT else settings.scope.tenant


@asynccontextmanager
async def _own_server(settings: Settings) -> AsyncIterator[str]:
    """A server in this process, on a socket that nobody else can reach."""
    # Here, because a command that finds a running server needs none of it.
    from server.app import open_app
    from server.grpc.server import running

    # A folder of the system's: short enough for a socket, and made 0700.
    with tempfile.TemporaryDirectory(prefix="plait-") as folder:
        socket = Path(folder) / "plait.sock"
        async with open_app(settings, background=False) as app:
            async with running(app, socket=socket):
                yield f"unix:{socket}"
