"""A grpc.aio server over an `App`: services, health, reflection, limits, addresses, drain."""

from __future__ import annotations

import asyncio
import logging
import socket as sockets
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from plait.client import discovery
from plait.domain.errors import PlaitError
from plait.settings import ServerSettings
from plait.supervisor.home import make_home
from plait.supervisor.token_file import TokenFile
from plait.v1 import (
    access_service_pb2,
    access_service_pb2_grpc,
    admin_service_pb2,
    admin_service_pb2_grpc,
    hook_service_pb2,
    hook_service_pb2_grpc,
    index_service_pb2,
    index_service_pb2_grpc,
    knowledge_service_pb2,
    knowledge_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
)
from server.access.callers import Callers, KeyCallers
from server.access.connections import Connections
from server.access.keys import KeyCache
from server.access.relay import Relay, raise_open_files, remove_stale
from server.app import App
from server.audit import open_audit
from server.grpc.boundary import Boundary
from server.grpc.calls_in_progress import Calls
from server.grpc.deadlines import Patience
from server.grpc.door import Door
from server.grpc.limits import Limits
from server.grpc.services.access import AccessService
from server.grpc.services.admin import AdminService
from server.grpc.services.hooks import HookService
from server.grpc.services.index import IndexService
from server.grpc.services.knowledge import KnowledgeService
from server.grpc.services.memory import MemoryService
from server.grpc.tls import credentials

logger = logging.getLogger(__name__)

SERVICES: tuple[str, ...] = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (knowledge_service_pb2, "KnowledgeService"),
        (index_service_pb2, "IndexService"),
        (memory_service_pb2, "MemoryService"),
        (admin_service_pb2, "AdminService"),
        (hook_service_pb2, "HookService"),
        (access_service_pb2, "AccessService"),
    )
)
HEALTH_LIMIT_S = 10.0
SETTLE_S = 0.1
SPARE_BYTES = 2**20


class HealthStatus(Protocol):
    """What this uses of `grpc_health.v1.health.aio.HealthServicer`, whose stubs lack it."""

    async def set(self, service: str, status: int) -> None: ...

    async def enter_graceful_shutdown(self) -> None: ...


class Outbox(Protocol):
    """What is asked whether calls can work: any answer will do."""

    async def waiting(self) -> int: ...


def _health_servicer() -> Any:
    return health.aio.HealthServicer()  # type: ignore[attr-defined]


class Server:
    """A started server. `port` is the TCP port it listens on, 0 for none, with `listening` its socket; `target` its
    Unix socket, for clients."""

    def __init__(
        self,
        server: grpc.aio.Server,
        calls: Calls,
        status: HealthStatus,
        relays: Sequence[Relay],
        socket: Path | None,
    ) -> None:
        self._server = server
        self._calls = calls
        self._status = status
        self._relays = relays
        self.target = f"unix:{socket}" if socket is not None else ""
        self.port = max((relay.port for relay in relays), default=0)
        self.listening = next((r.socket for r in relays if r.socket is not None), None)

    async def drain(self, limit_s: float) -> None:
        """Say NOT_SERVING, take no new call, let those in flight end within `limit_s`, cancel the rest.

        Streams (who watches health or a job) would never end by themselves, so they don't hold it up.
        """
        for relay in self._relays:
            relay.stop_accepting()
        await self._status.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._server.stop(limit_s))
        # Until it is idle twice: a call that came just before the stop may not have begun yet.
        for _ in range(2):
            idle = asyncio.create_task(self._calls.idle())
            await asyncio.wait({idle, stopping}, return_when=asyncio.FIRST_COMPLETED)
            idle.cancel()
            await asyncio.wait({stopping}, timeout=SETTLE_S)
        # A shorter grace replaces the longer one: enough to send what was answered.
        await self._server.stop(min(limit_s, SETTLE_S))
        await stopping


@asynccontextmanager
async def running(
    app: App,
    *,
    socket: Path | None = None,
    host: str = "",
    port: int | None = None,
    keys: KeyCallers | None = None,
    listening: sockets.socket | None = None,
) -> AsyncIterator[Server]:
    """A server of `app` on a Unix socket, a TCP address, or both; drained at the end. Over TCP `keys` and
    the token of the app's home open; without either nothing but health answers. `listening`: of a worker, the TCP
    socket that its first process has, in place of `port`.

    Raises: PortTaken, TokenUnsafe, TlsMissing, TlsUnusable.
    """
    settings = app.settings.server
    tls = credentials(settings, host) if port is not None else None
    connections = Connections(settings)
    cache = KeyCache(app.truth.keys)
    callers = _callers(app, keys or cache) if port is not None else None
    limits = Limits(app.settings)
    patience = Patience(app.stores)
    door = Door(settings, connections, callers, patience)
    audit = open_audit(app.settings)
    boundary = Boundary(limits, app.settings.scope, app.calls, patience, door, audit)
    server = grpc.aio.server(interceptors=[boundary], options=_options(settings))
    status = _add_services(server, app, limits, cache)
    raise_open_files(8 * (settings.max_connections + settings.max_concurrent))
    async with AsyncExitStack() as stack:
        if audit is not None:
            stack.push_async_callback(asyncio.to_thread, audit.close)
        doors = _Listening(server, connections, settings, _private(socket, stack), stack)
        relays = []
        if socket is not None:
            relays.append(await doors.on_socket(socket))
        if port is not None:
            relays.append(await doors.over_tcp(host, port, tls, listening))
        await _tell(status, serving=True)
        await server.start()
        stop = asyncio.Event()
        watch = asyncio.create_task(
            watch_health(app.truth.outbox, status, stop, settings.health_s), name="health"
        )
        out = Server(server, app.calls, status, relays, socket)
        try:
            yield out
        finally:
            # Both: a cancellation that arrives as an answer does is lost by `asyncio.wait_for` of Python
            # 3.11, which psycopg waits by.
            stop.set()
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await out.drain(settings.drain_s)
            for connection in list(connections):
                connection.close()


@dataclass(frozen=True, slots=True)
class _Listening:
    """gRPC listens on sockets of its own in `folder`; a relay accepts before each, until `stack` ends."""

    server: grpc.aio.Server
    connections: Connections
    settings: ServerSettings
    folder: Path
    stack: AsyncExitStack

    async def on_socket(self, socket: Path) -> Relay:
        inner = self._inner("grpc.sock")
        self.server.add_insecure_port(f"unix:{inner}")
        relay = self._relay(inner)
        await relay.listen_unix(socket)
        return relay

    async def over_tcp(
        self,
        host: str,
        port: int,
        tls: grpc.ServerCredentials | None,
        listening: sockets.socket | None,
    ) -> Relay:
        """Raises: PortTaken."""
        inner = self._inner("tcp.sock")
        relay = self._relay(inner)
        await relay.listen_tcp(host, port, listening)
        if tls is None:
            self.server.add_insecure_port(f"unix:{inner}")
        else:
            self.server.add_secure_port(f"unix:{inner}", tls)
        return relay

    def _inner(self, name: str) -> Path:
        path = self.folder / name
        path.unlink(missing_ok=True)
        self.stack.callback(path.unlink, missing_ok=True)
        return path

    def _relay(self, inner: Path) -> Relay:
        relay = Relay(inner, self.connections, self.settings)
        self.stack.callback(relay.stop_accepting)
        return relay


def _callers(app: App, keys: KeyCallers) -> Callers:
    home = app.settings.home
    make_home(home)
    return Callers(TokenFile(discovery.token_path(home)), keys)


def _private(socket: Path | None, stack: AsyncExitStack) -> Path:
    """The folder for gRPC's own sockets, which nobody else can enter."""
    if socket is not None:
        remove_stale(socket.parent)
        return socket.parent
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plait-")))


def _add_services(
    server: grpc.aio.Server, app: App, limits: Limits, keys: KeyCache
) -> HealthStatus:
    knowledge_service_pb2_grpc.add_KnowledgeServiceServicer_to_server(
        KnowledgeService(app, limits), server
    )
    index_service_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(app), server)
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryService(app, limits), server)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(AdminService(app), server)
    hook_service_pb2_grpc.add_HookServiceServicer_to_server(HookService(app), server)
    access_service_pb2_grpc.add_AccessServiceServicer_to_server(AccessService(app, keys), server)
    status: HealthStatus = _health_servicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    if app.settings.server.reflection:
        from grpc_reflection.v1alpha import reflection

        names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    return status


def _options(settings: ServerSettings) -> Sequence[tuple[str, int]]:
    return (
        # A little more is read than is allowed, so that it is refused with a reason.
        ("grpc.max_receive_message_length", settings.max_message_bytes + SPARE_BYTES),
        ("grpc.max_send_message_length", settings.max_message_bytes + SPARE_BYTES),
        ("grpc.max_concurrent_streams", settings.max_streams),
        ("grpc.server_handshake_timeout_ms", int(settings.hello_s * 1000)),
        # Clients on the same machine: notice a dead one within a minute, and let them ping.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    )


async def watch_health(
    outbox: Outbox, status: HealthStatus, stop: asyncio.Event, every_s: float
) -> None:
    """Ask the truth store every `every_s`, and tell health clients whether calls can work, until `stop` is
    set."""
    was = True
    while not stop.is_set():
        await asyncio.sleep(every_s)
        try:
            serving = await _answers(outbox)
        except PlaitError as exc:
            serving = False
            logger.warning("not serving", extra={"reason": exc.reason, "error": str(exc)})
        if serving != was:
            await _tell(status, serving=serving)
            was = serving


async def _answers(outbox: Outbox) -> bool:
    """Whether the truth store answers within `HEALTH_LIMIT_S`. One that hangs is not waited for, nor for
    the end of the question. Raises: PlaitError."""
    asked = asyncio.ensure_future(outbox.waiting())
    try:
        done, _ = await asyncio.wait({asked}, timeout=HEALTH_LIMIT_S)
    finally:
        if not asked.done():
            asked.cancel()
            asked.add_done_callback(lambda task: task.cancelled() or task.exception())
    if not done:
        logger.warning("not serving", extra={"reason": "STORE_UNAVAILABLE", "error": "no answer"})
        return False
    asked.result()
    return True


async def _tell(status: HealthStatus, *, serving: bool) -> None:
    states = health_pb2.HealthCheckResponse
    state = states.SERVING if serving else states.NOT_SERVING
    for service in ("", *SERVICES):
        await status.set(service, state)
