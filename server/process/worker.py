"""One worker of `plait serve --workers N`; `server/process/workers.py` starts and keeps it."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import signal
import socket as sockets
import sys

from plait.settings import Settings
from server.app import open_app
from server.process import logs
from server.process.idle import Rest
from server.process.serve import collect_seldom
from server.process.wakes import Wake

logger = logging.getLogger(__name__)


def main() -> None:
    """Serve on the socket that is handed down, until told to end or until who started us is gone."""
    import uvloop

    logs.to_stderr(verbose=False)
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    settings: Settings = pickle.loads(sys.stdin.buffer.read(size))  # noqa: S301  (from who started us)
    socket = sockets.socket(fileno=int(sys.argv[1]))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, socket))


async def _serve(settings: Settings, socket: sockets.socket) -> None:
    from server.grpc.server import running

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)  # nothing more is ever sent: it is at its end
    async with open_app(settings, background=False, tell=_tell) as app:
        collect_seldom()
        async with running(app, host=settings.server.host, port=0, listening=socket):
            resting = asyncio.create_task(Rest(app, settings, None).run(stop), name="rest")
            await stop.wait()
            resting.cancel()
            loop.remove_reader(sys.stdin.fileno())


def _tell(wake: Wake) -> None:
    """One write of a line that fits into the pipe: to who has gone nothing needs to be told."""
    try:
        os.write(sys.stdout.fileno(), wake.line())
    except OSError as exc:
        logger.warning("the first process is not told", extra={"error": str(exc)})


if __name__ == "__main__":
    main()
