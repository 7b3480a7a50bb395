"""Where the running server of a PLAIT_HOME listens: the file it leaves there while it runs."""

from __future__ import annotations

import hashlib
import json
import os
import socket as sockets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from plait.domain.errors import ServerNotOurs
from plait.supervisor import peers
from plait.supervisor.locks import FileLock

# `struct sockaddr_un.sun_path` holds 108 bytes with its NUL on Linux, 104 on macOS.
MAX_SOCKET_BYTES = 103


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """`socket` is always there; `port` 0 means no TCP. `background`: a client started it, and it exits
    when idle. `settings`: a digest of those that it runs with."""

    pid: int
    socket: str
    host: str
    port: int
    version: str
    started_at: str
    background: bool = False
    settings: str = ""

    @property
    def target(self) -> str:
        """For the clients: the socket, which only this account can reach."""
        return f"unix:{self.socket}"

    @property
    def where(self) -> str:
        """For people: the socket, and the TCP address where there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port} and {self.target}" if self.port else self.target

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def folder(home: Path) -> Path:
    """The folder of the server's lock, address and socket; 0700."""
    return home / "server"


def token_path(home: Path) -> Path:
    """The token that the server of `home` wants over TCP."""
    return folder(home) / "token"


def mcp_token_path(home: Path) -> Path:
    """The token that `plait mcp --http` of `home` wants."""
    return folder(home) / "mcp.token"


def socket_path(home: Path) -> Path:
    """The server's socket: in its folder, or, where that path is too long for a socket, in a private
    folder of the system's temporary one, named after the home."""
    path = folder(home) / "plait.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_BYTES:
        return path
    digest = hashlib.blake2b(os.fsencode(home), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"plait-{os.getuid()}-{digest}" / "plait.sock"


def read(home: Path) -> ServerAddress | None:
    """What the last server of `home` left; it may be dead, so try it. None: nothing to read."""
    try:
        tree = json.loads((folder(home) / "server.json").read_text(encoding="utf-8"))
        return ServerAddress(**tree)
    except (OSError, ValueError, TypeError):
        return None


def running(home: Path) -> ServerAddress | None:
    """The server of `home` if one takes connections on its socket; a dead one leaves its file behind.

    Raises: ServerNotOurs, when another account listens there.
    """
    address = read(home)
    if address is None or not isinstance(address.socket, str) or not hasattr(sockets, "AF_UNIX"):
        return None
    try:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(address.socket)
            check_ours(probe, address.socket)
    except (OSError, ValueError):
        return None
    return address


def check_ours(connected: sockets.socket, path: str) -> None:
    """Raises: ServerNotOurs, unless this account or root listens at the other end."""
    if not peers.is_ours(connected):
        raise ServerNotOurs(
            f"another account listens on {path}; nothing was sent to it. Ask that account, or remove the "
            "socket and start the server again",
            socket=path,
        )


def check_socket(path: str) -> None:
    """As `check_ours`, for the process that listens on `path`; does nothing without one. Raises: ServerNotOurs."""
    try:
        with sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(path)
            check_ours(probe, path)
    except (OSError, ValueError):
        return


def is_claimed(home: Path) -> bool:
    """Whether a live process is the server of `home`, or is becoming it."""
    path = folder(home) / "lock"
    if not path.exists():
        return False
    with taking_turns(path.parent), FileLock(path) as lock:
        return not lock.try_acquire(shared=True)


@contextmanager
def taking_turns(folder: Path) -> Iterator[None]:
    """All who try a server's lock take turns: a look holds it for a moment, which who starts would mistake
    for a server."""
    with FileLock(folder / "turn") as turn:
        turn.acquire()
        yield
