"""`plait serve --workers N`: more processes that answer calls over TCP on the same port.

The first process listens, and the others accept on the very same socket: whoever is free takes the next connection.
The home's own socket, and every job in the background, are the first one's alone; a worker tells it what it wrote. A
worker that dies is started again; one whose first process is gone ends by itself.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket as sockets
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from plait.settings import Settings
from server.process.wakes import Wake, parsed

logger = logging.getLogger(__name__)

AGAIN_S = 1.0  # before a worker that died is started again
LONGEST_LINE = 64 * 2**20  # of a worker; 500 episodes of as many agents make 100 KB
SPARE_S = 5.0  # beyond `server.drain_s`, until a worker that was told to end is killed


class Workers:
    """`count` worker processes on `socket`. `told` gets what they tell; `lost` is called when one died, since what it
    wrote last may not have been told."""

    def __init__(
        self,
        settings: Settings,
        socket: sockets.socket,
        count: int,
        told: Callable[[Wake], None],
        lost: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._socket = socket
        self._count = count
        self._told = told
        self._lost = lost
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._keeping: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def pids(self) -> tuple[int, ...]:
        """Of those that run."""
        return tuple(process.pid for process in self._processes.values())

    def start(self) -> None:
        for number in range(self._count):
            name = f"worker {number + 1}"
            self._keeping.append(asyncio.create_task(self._keep(number), name=name))

    async def _keep(self, number: int) -> None:
        """Have one worker run until all are stopped."""
        while not self._stopping:
            process = await asyncio.to_thread(self._begin)
            self._processes[number] = process
            if self._stopping:  # while it was begun
                process.terminate()
            logger.info("worker started", extra={"worker": number + 1, "pid": process.pid})
            try:
                await self._listen(process)
            except Exception:
                logger.exception("a worker is not heard any more", extra={"worker": number + 1})
                process.terminate()
            code = await asyncio.to_thread(process.wait)
            del self._processes[number]
            if not self._stopping:
                extra = {"worker": number + 1, "code": code, "again_in_s": AGAIN_S}
                logger.warning("worker died", extra=extra)
                self._lost()
                await asyncio.sleep(AGAIN_S)

    def _begin(self) -> subprocess.Popen[bytes]:
        fd = self._socket.fileno()
        # Not by the event loop's own way, before which gRPC would have to stop its threads.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "server.process.worker", str(fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(fd,),
        )
        assert process.stdin is not None
        # Over a pipe, as they hold passwords. It stays open: its end tells the worker that we are gone.
        given = pickle.dumps(self._settings)
        with suppress(BrokenPipeError):
            process.stdin.write(len(given).to_bytes(4, "big") + given)
            process.stdin.flush()
        return process

    async def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take what a worker tells, until it ends."""
        told = asyncio.StreamReader(limit=LONGEST_LINE)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(told), process.stdout
        )
        try:
            while line := await told.readline():
                try:
                    self._told(parsed(line))
                except ValueError as exc:
                    logger.warning("a worker's line is not understood", extra={"error": str(exc)})
        finally:
            transport.close()

    def drain(self) -> None:
        """Tell all to take no new call and to end."""
        self._stopping = True
        for process in self._processes.values():
            process.terminate()

    async def stop(self) -> None:
        """`drain`, and wait until they have ended; who takes longer than they may is killed."""
        self.drain()
        limit_s = self._settings.server.drain_s + SPARE_S
        await asyncio.wait(self._keeping, timeout=limit_s)
        for process in self._processes.values():
            process.kill()
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
