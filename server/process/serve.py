"""`plait serve`: the server as a process, from its start to its drained end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import plait
from plait.client.discovery import ServerAddress
from plait.settings import Settings
from plait.supervisor.account import unprivileged
from plait.supervisor.home import prepare
from server.app import App, open_app
from server.process.address import announce, claimed, withdraw
from server.process.idle import Rest
from server.process.workers import Workers

if TYPE_CHECKING:
    from server.grpc.server import Server

logger = logging.getLogger(__name__)


def run(
    settings: Settings, on_ready: Callable[[ServerAddress], None], *, background: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT, on uvloop. `on_ready` gets the address once calls are answered.
    `background`: on the home's socket alone, and until nobody has called for `server.idle_s`.

    Raises: ServerAlreadyRunning, PortTaken, TlsMissing, TlsUnusable, TokenUnsafe, HomeUnusable,
        StoreUnavailable, SchemaMismatch, EmbeddedServerFailed.
    """
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, on_ready, background=background))


async def serve(
    settings: Settings, on_ready: Callable[[ServerAddress], None], *, background: bool = False
) -> None:
    """As `run`, inside a running loop."""
    from server.grpc.server import running
    from server.grpc.tls import credentials

    stop = asyncio.Event()
    _on_signals(stop)
    host, port = ("", None) if background else (settings.server.host, settings.server.port)
    if port is None:
        host = ""
    else:
        credentials(settings.server, host)  # what is wrong with them is said before anything starts
    if not settings.postgres.dsn.get_secret_value():
        prepare(settings.home, unprivileged(settings.embedded.run_as))
    with claimed(settings.home) as socket:
        async with open_app(settings, background=True) as app:
            asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, app.follower.resumed)
            collect_seldom()
            async with running(app, socket=socket, host=host, port=port) as server:
                address = ServerAddress(
                    pid=os.getpid(),
                    socket=str(socket),
                    host=host,
                    port=server.port,
                    version=plait.__version__,
                    started_at=datetime.now(UTC).isoformat(timespec="seconds"),
                    background=background,
                    settings=settings.digest(),
                )
                announce(settings.home, address)
                on_ready(address)
                workers = _workers(settings, app, server)
                rest = Rest(app, settings, address if background else None)
                resting = asyncio.create_task(rest.run(stop), name="rest")
                await stop.wait()
                resting.cancel()
                withdraw(settings.home)
                logger.info("draining", extra={"limit_s": settings.server.drain_s})
                if workers is not None:
                    workers.drain()
            if workers is not None:
                await workers.stop()


def _workers(settings: Settings, app: App, server: Server) -> Workers | None:
    """The other processes of this service, which begin to start; None: it has one alone."""
    count = settings.server.workers - 1
    if not count or server.listening is None:
        return None
    workers = Workers(settings, server.listening, count, app.woken, app.worker_lost)
    workers.start()
    return workers


def collect_seldom() -> None:
    """What is loaded by now stays; a call makes thousands of objects and nearly no cycles, so looking
    for cycles every 700 of them, as Python does, was a tenth of a batch's CPU."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _on_signals(stop: asyncio.Event) -> None:
    """The first signal drains, the second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            sys.stderr.write("second signal: ending without waiting for calls in flight\n")
            os._exit(130)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
