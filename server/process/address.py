"""One server a PLAIT_HOME: the lock it holds, the socket it owns, the address file it leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plait.client import discovery
from plait.client.discovery import ServerAddress
from plait.domain.errors import HomeUnusable, ServerAlreadyRunning
from plait.supervisor.files import private_folder, write_private
from plait.supervisor.home import make_home
from plait.supervisor.locks import FileLock


@contextmanager
def claimed(home: Path) -> Iterator[Path]:
    """Be the server of `home` for the length of the block; gives the socket's path.

    The lock is the kernel's and goes with this process, so what a killed server left is never in the
    way: a stale address file is overwritten, a stale socket removed.

    Raises: ServerAlreadyRunning, HomeUnusable, StoreFull.
    """
    make_home(home)
    folder = private_folder(discovery.folder(home))
    with FileLock(folder / "lock") as lock:
        with discovery.taking_turns(folder):
            if not lock.try_acquire():
                raise _already(home)
        socket = discovery.socket_path(home)
        _private(socket.parent)
        socket.unlink(missing_ok=True)
        address = folder / "server.json"
        address.unlink(missing_ok=True)
        try:
            yield socket
        finally:
            # In this order: who finds no address asks nobody.
            address.unlink(missing_ok=True)
            socket.unlink(missing_ok=True)


def announce(home: Path, address: ServerAddress) -> None:
    """Leave `address` for clients on this machine."""
    write_private(discovery.folder(home) / "server.json", address.to_json())


def withdraw(home: Path) -> None:
    """Take the address back: who comes from now on is not to wait for a server that ends."""
    (discovery.folder(home) / "server.json").unlink(missing_ok=True)


def _already(home: Path) -> ServerAlreadyRunning:
    known = discovery.read(home)
    where = f"process {known.pid} at {known.where}" if known else "another process"
    return ServerAlreadyRunning(
        f"{where} is the server of {home} already; use it, or stop it first, or start this one with "
        "another PLAIT_HOME",
        home=home,
        pid=known.pid if known else "",
    )


def _private(folder: Path) -> None:
    """Make sure that nobody else can put a socket in our socket's place."""
    private_folder(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise HomeUnusable(
            f"{folder} must be a folder that only uid {os.geteuid()} can enter, as the server's socket "
            f"lies in it; remove it, or run `chmod 700 {folder}`",
            path=folder,
        )
