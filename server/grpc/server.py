"""A grpc.aio server over an `App`: services, health, reflection, limits, addresses, drain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from plait.domain.errors import PlaitError, PortTaken
from plait.settings import ServerSettings
from plait.v1 import (
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
from server.app import App, Calls
from server.grpc.admin import AdminService
from server.grpc.boundary import Boundary
from server.grpc.deadlines import Patience
from server.grpc.hooks import HookService
from server.grpc.index import IndexService
from server.grpc.knowledge import KnowledgeService
from server.grpc.limits import Limits
from server.grpc.memory import MemoryService

logger = logging.getLogger(__name__)

SERVICES: tuple[str, ...] = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (knowledge_service_pb2, "KnowledgeService"),
        (index_service_pb2, "IndexService"),
        (memory_service_pb2, "MemoryService"),
        (admin_service_pb2, "AdminService"),
        (hook_service_pb2, "HookService"),
    )
)
HEALTH_EVERY_S = 5.0
HEALTH_LIMIT_S = 10.0
SETTLE_S = 0.1
SPARE_CALLS, SPARE_BYTES = 64, 2**20


class HealthStatus(Protocol):
    """What this uses of `grpc_health.v1.health.aio.HealthServicer`, whose stubs lack it."""

    async def set(self, service: str, status: int) -> None: ...

    async def enter_graceful_shutdown(self) -> None: ...


class Truth(Protocol):
    """What is asked whether calls can work: any answer will do."""

    async def waiting(self) -> int: ...


def _health_servicer() -> Any:
    return health.aio.HealthServicer()  # type: ignore[attr-defined]


class Server:
    """A started server. `port` is the TCP port it listens on, 0 for none."""

    def __init__(
        self, server: grpc.aio.Server, calls: Calls, status: HealthStatus, port: int
    ) -> None:
        self._server = server
        self._calls = calls
        self._status = status
        self.port = port

    async def drain(self, limit_s: float) -> None:
        """Say NOT_SERVING, take no new call, let those in flight end within `limit_s`, cancel the rest.

        Streams (who watches health or a job) would never end by themselves, so they don't hold it up.
        """
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
    app: App, *, socket: Path | None = None, host: str = "", port: int | None = None
) -> AsyncIterator[Server]:
    """A server of `app` on a Unix socket, a TCP address, or both; drained at the end.

    Raises: PortTaken.
    """
    settings = app.settings.server
    limits = Limits(app.settings)
    boundary = Boundary(limits, app.settings.scope, app.calls, Patience(app.stores))
    server = grpc.aio.server(
        interceptors=[boundary],
        options=_options(settings),
        # The boundary refuses first, with a reason; what comes faster than it can is refused unread.
        maximum_concurrent_rpcs=settings.max_concurrent + SPARE_CALLS,
    )
    knowledge_service_pb2_grpc.add_KnowledgeServiceServicer_to_server(
        KnowledgeService(app, limits), server
    )
    index_service_pb2_grpc.add_IndexServiceServicer_to_server(IndexService(app), server)
    memory_service_pb2_grpc.add_MemoryServiceServicer_to_server(MemoryService(app), server)
    admin_service_pb2_grpc.add_AdminServiceServicer_to_server(AdminService(app), server)
    hook_service_pb2_grpc.add_HookServiceServicer_to_server(HookService(app), server)
    status = _health_servicer()
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    reflection.enable_server_reflection(
        (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    if socket is not None:
        server.add_insecure_port(f"unix:{socket}")
    bound = _listen(server, host, port) if port is not None else 0
    await _tell(status, serving=True)
    await server.start()
    stop = asyncio.Event()
    watch = asyncio.create_task(watch_health(app.truth, status, stop), name="health")
    out = Server(server, app.calls, status, bound)
    try:
        yield out
    finally:
        # Both: a cancellation that arrives as an answer does is lost by `asyncio.wait_for` of Python 3.11,
        # which psycopg waits by.
        stop.set()
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await out.drain(settings.drain_s)


def _options(settings: ServerSettings) -> Sequence[tuple[str, int]]:
    return (
        # As above: a little more is read, so that it is refused with a reason.
        ("grpc.max_receive_message_length", settings.max_message_bytes + SPARE_BYTES),
        ("grpc.max_send_message_length", settings.max_message_bytes + SPARE_BYTES),
        # Clients on the same machine: notice a dead one within a minute, and let them ping.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        # Two servers on one port would share its calls in silence; the second must fail.
        ("grpc.so_reuseport", 0),
    )


def _listen(server: grpc.aio.Server, host: str, port: int) -> int:
    try:
        bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise PortTaken(
            f"cannot listen on {host}:{port}: another program has the port, or the address is not "
            "this machine's; set `server.port` (PLAIT_SERVER__PORT, `plait serve --port`) to a free "
            "one, 0 picks one",
            host=host,
            port=port,
        )
    return int(bound)


async def watch_health(truth: Truth, status: HealthStatus, stop: asyncio.Event) -> None:
    """Ask the truth store now and then, and tell health clients whether calls can work, until `stop` is
    set."""
    was = True
    while not stop.is_set():
        await asyncio.sleep(HEALTH_EVERY_S)
        try:
            serving = await _answers(truth)
        except PlaitError as exc:
            serving = False
            logger.warning("not serving", extra={"reason": exc.reason, "error": str(exc)})
        if serving != was:
            await _tell(status, serving=serving)
            was = serving


async def _answers(truth: Truth) -> bool:
    """Whether the truth store answers within `HEALTH_LIMIT_S`. One that hangs is not waited for, nor for
    the end of the question. Raises: PlaitError."""
    asked = asyncio.ensure_future(truth.waiting())
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
