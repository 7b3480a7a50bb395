"""The account of the process at the other end of a Unix socket, by the kernel."""

from __future__ import annotations

import os
import socket as sockets
import struct

_UCRED = struct.Struct("3i")  # Linux: pid, uid, gid
_XUCRED = struct.Struct("II")  # macOS: version, uid, and groups, which are not used
_SOL_LOCAL, _LOCAL_PEERCRED = 0, 1


def uid_of(socket: sockets.socket) -> int:
    """The account of who connected to `socket`, or, at the connecting end, of who listens.

    Raises: OSError, where the system has no answer.
    """
    if hasattr(sockets, "SO_PEERCRED"):
        found = socket.getsockopt(sockets.SOL_SOCKET, sockets.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(found)[1])
    found = socket.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size)
    return int(_XUCRED.unpack(found)[1])


def is_ours(socket: sockets.socket) -> bool:
    """Whether the process at the other end is of this account, or root's; False when unknown."""
    try:
        return uid_of(socket) in (os.geteuid(), 0)
    except OSError:
        return False
