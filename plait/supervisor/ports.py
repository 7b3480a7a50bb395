"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket

from plait.domain.errors import EmbeddedServerFailed

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different ports that were free a moment ago: a user of one must be ready to retry.

    Raises: EmbeddedServerFailed, when the system has none left.
    """
    sockets: list[socket.socket] = []
    try:
        for _ in range(count):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sockets.append(listener)
            listener.bind((LOOPBACK, 0))
        return tuple(int(listener.getsockname()[1]) for listener in sockets)
    except OSError as exc:
        raise EmbeddedServerFailed(
            f"no free port on {LOOPBACK}: {exc.strerror}; close programs that hold many connections, "
            "or widen net.ipv4.ip_local_port_range"
        ) from exc
    finally:
        for listener in sockets:
            listener.close()
