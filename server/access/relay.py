"""Our own accept: looks at who connects, counts them, and passes their bytes on to gRPC's inner socket.

gRPC accepts by itself, says nothing of a Unix peer's account, and closes nobody. So it listens on a socket
of the server's private folder alone, and this stands before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket as sockets
from itertools import count
from pathlib import Path
from typing import cast

from plait.domain.errors import PortTaken
from plait.settings import ServerSettings
from plait.supervisor import peers
from server.access.connections import Connection, Connections

logger = logging.getLogger(__name__)

BACKLOG = 128
# What of a closed connection still waits to be read by the other side has so long.
LINGER_S = 5.0
_numbers = count(1)


class Relay:
    """Accepts on one public address and connects to `inner`, the path of gRPC's socket for it."""

    def __init__(self, inner: Path, connections: Connections, settings: ServerSettings) -> None:
        self.inner = inner
        self.connections = connections
        self.settings = settings
        self._server: asyncio.Server | None = None
        self.socket: sockets.socket | None = None  # of TCP
        self.port = 0

    async def listen_unix(self, path: Path) -> None:
        """Accept this account's processes, and root's, on a socket that is made 0600."""
        socket = _bound(path)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _Outer(self, local=True), sock=socket, backlog=BACKLOG
        )

    async def listen_tcp(
        self, host: str, port: int, listening: sockets.socket | None = None
    ) -> None:
        """On a socket of its own, or on one that is `listening` already, with other processes.

        Raises: PortTaken.
        """
        socket = listening if listening is not None else _listening(host, port)
        self.socket = socket
        self.port = int(socket.getsockname()[1])
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Outer(self, local=False), sock=socket, backlog=BACKLOG
        )

    def stop_accepting(self) -> None:
        """Those who are connected stay."""
        if self._server is not None:
            self._server.close()


def _listening(host: str, port: int) -> sockets.socket:
    """Raises: PortTaken."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    try:
        return sockets.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=host == "::"
        )
    except (OSError, OverflowError) as exc:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({exc}): another program has the port, or the address is "
            "not this machine's; set `server.port` (PLAIT_SERVER__PORT, `plait serve --port`) to a "
            "free one, 0 picks one",
            host=host,
            port=port,
        ) from exc


class _Side(asyncio.Protocol):
    """One half of a relayed connection; what it receives goes to the other half."""

    transport: asyncio.Transport
    other: _Side | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        if self.other is not None and not self.other.transport.is_closing():
            self.other.end()

    def end(self) -> None:
        """Close once what waits is read, or soon."""
        transport = self.transport
        transport.close()
        asyncio.get_running_loop().call_later(LINGER_S, transport.abort)


class _Inner(_Side):
    """The half to gRPC."""

    def __init__(self, outer: _Outer) -> None:
        self.other = outer


class _Outer(_Side):
    """The half to the client."""

    def __init__(self, relay: Relay, *, local: bool) -> None:
        self._relay = relay
        self._local = local
        self._connection: Connection | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._early = b""  # what came before there was another half

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        socket = transport.get_extra_info("socket")
        if self._local and not peers.is_ours(socket):
            logger.warning("connection of another account refused")
            self.transport.abort()
            return
        # Shorter than the public socket's own name, whose length was checked.
        name = self._relay.inner.with_name(f"c{next(_numbers) % 10**8}")
        connection = Connection(str(name), "" if self._local else _address(socket), self._cut)
        if not self._relay.connections.admit(connection):
            self.transport.abort()
            return
        self._connection = connection
        if not self._local:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._relay.settings.hello_s, self._unless_known)

    async def _connect(self, name: Path) -> None:
        loop = asyncio.get_running_loop()
        socket = None
        try:
            socket = _bound(name)  # gRPC tells a call's peer by this name
            socket.setblocking(False)
            try:
                await loop.sock_connect(socket, str(self._relay.inner))
            finally:
                name.unlink(missing_ok=True)  # noqa: ASYNC240  (as quick as the bind)
            _, self.other = await loop.create_unix_connection(lambda: _Inner(self), sock=socket)
        except OSError as exc:
            if socket is not None:
                socket.close()
            logger.warning("connection not passed on", extra={"error": str(exc)})
            self.transport.abort()
            return
        if self.transport.is_closing():
            self.other.end()
        else:
            self.other.transport.write(self._early)
            self._early = b""
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._connection is None or not self._connection.took(len(data)):
            self._cut()
        elif self.other is None:
            # Not sooner: uvloop reads at first whatever `connection_made` says.
            self._early += data
            self.transport.pause_reading()
            if self._connecting is None:  # who looks only whether we are here costs gRPC nothing
                work = self._connect(Path(self._connection.name))
                self._connecting = asyncio.get_running_loop().create_task(work)
        else:
            super().data_received(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        loop = asyncio.get_running_loop()
        self._stuck = loop.call_later(self._relay.settings.answer_s, self._cut)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._connection is not None:
            self._relay.connections.leave(self._connection)
        super().connection_lost(exc)

    def _unless_known(self) -> None:
        if self._connection is not None and not self._connection.known:
            self._cut()

    def _cut(self) -> None:
        """Close at once, whatever waits to be sent."""
        if self._connection is not None:
            self._relay.connections.leave(self._connection)
        self.transport.abort()


def _bound(path: Path) -> sockets.socket:
    """A Unix socket of this name, which only its account may connect to."""
    socket = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        socket.bind(str(path))
        path.chmod(0o600)
    except OSError:
        socket.close()
        raise
    return socket


def _address(socket: sockets.socket) -> str:
    try:
        return str(socket.getpeername()[0])
    except OSError:  # it has gone already
        return "unknown"


def remove_stale(folder: Path) -> None:
    """Remove the sockets that a server that was killed left in its private folder."""
    for path in folder.glob("c*"):
        if path.name[1:].isdecimal():
            path.unlink(missing_ok=True)


def raise_open_files(wanted: int) -> None:
    """Let this process have `wanted` files open, or as many as it may: a relayed connection is three."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
