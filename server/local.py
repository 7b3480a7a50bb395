"""A client for a command line: of the running server of this PLAIT_HOME, or of one in this process.

Either way every command speaks the contract over a socket: one path, tested as one.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from plait.client import discovery
from plait.client.aio import AsyncPlaitClient
from plait.client.calls import Call
from plait.client.errors import PlaitRpcError
from plait.client.transport import may_retry
from plait.domain.errors import ServerNotAnswering
from plait.domain.scope import DEFAULT_TENANT
from plait.settings import Settings
from server.address import is_claimed

T = TypeVar("T")


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[AsyncPlaitClient]:
    """Raises: ServerNotAnswering; and as `server.app.open_app`, when it starts a server of its own."""
    address = discovery.read(settings.home)
    if address is not None and is_claimed(settings.home):
        async with AsyncExitStack() as stack:
            following = await stack.enter_async_context(_Following(address, settings, stack))
            if await _answers(following, address, settings):
                yield following
                return
    async with (
        _own_server(settings) as target,
        AsyncPlaitClient(target, tenant=_tenant(settings)) as client,
    ):
        yield client


class _Following(AsyncPlaitClient):
    """Of a server that may end between two calls, or between a look and the first: then one of our own
    answers, if the call may be sent again."""

    def __init__(
        self, address: discovery.ServerAddress, settings: Settings, stack: AsyncExitStack
    ) -> None:
        super().__init__(address.target, tenant=_tenant(settings))
        self._address = address
        self._settings = settings
        self._stack = stack
        self._moving = asyncio.Lock()

    async def _run(self, call: Call[T]) -> T:
        try:
            return await super()._run(call)
        except PlaitRpcError as exc:
            ended = call.retry and may_retry(exc) and _has_ended(self._address, self._settings)
            if not ended:
                raise
        async with self._moving:
            if self.target == self._address.target:
                own = await self._stack.enter_async_context(_own_server(self._settings))
                self._stack.push_async_callback(self._move(own))
        return await super()._run(call)


def _has_ended(address: discovery.ServerAddress, settings: Settings) -> bool:
    """Whether the server of `address` is no more, or about to be."""
    return discovery.read(settings.home) != address or not is_claimed(settings.home)


def _tenant(settings: Settings) -> str:
    """What calls say of their tenant: nothing where this command was told nothing, so that the server's
    own setting holds."""
    return "" if settings.scope.tenant == DEFAULT_TENANT else settings.scope.tenant


async def _answers(
    client: AsyncPlaitClient, address: discovery.ServerAddress, settings: Settings
) -> bool:
    """Whether the server of `address` is there; False when it ended while we asked. One that has just
    started on a busy machine is loading its model, and gets as long as any call without a deadline.

    Raises: ServerNotAnswering.
    """
    try:
        await client.healthy(timeout_s=settings.server.timeout_s)
        return True
    except PlaitRpcError as exc:
        if _has_ended(address, settings):
            return False
        raise ServerNotAnswering(
            f"the server of this PLAIT_HOME, process {address.pid}, does not answer ({exc.message}); "
            f"look at its log, or end it with `kill {address.pid}`",
            pid=address.pid,
            cause=exc.reason,
        ) from exc


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
