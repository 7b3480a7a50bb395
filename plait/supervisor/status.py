"""Read-only status of one embedded server's folder: starts nothing, changes nothing."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from plait.supervisor import process, state
from plait.supervisor.files import others_can_read, read_json
from plait.supervisor.lease import keeper_alive
from plait.supervisor.process import Identity
from plait.supervisor.state import State


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """`state`: what the keeper published, None without a living keeper. `orphan`: a server whose keeper
    is gone. `stale`: a published state without a keeper. `failure`: the last start's, unless it was
    mended since. Sizes in bytes."""

    folder: Path
    exists: bool
    state: State | None = None
    orphan: Identity | None = None
    stale: bool = False
    failure: str = ""
    uptime_s: float = 0.0
    rss_bytes: int = 0
    data_bytes: int = 0
    unfinished: tuple[Path, ...] = ()
    exposed: tuple[Path, ...] = ()
    unreadable: str = ""


def look(folder: Path) -> FolderStatus:
    """The status of `folder`: its server, and the remains of earlier ones."""
    if not folder.is_dir():
        return FolderStatus(folder, exists=False)
    try:
        # The lock's file is made by the first user: without it there was none.
        alive = (folder / state.KEEPER_LOCK).exists() and keeper_alive(folder)
        return _running(folder) if alive else _stopped(folder)
    except OSError as exc:
        return FolderStatus(folder, exists=True, unreadable=f"{exc.strerror}: {exc.filename}")


def _running(folder: Path) -> FolderStatus:
    published = state.read(folder)
    return FolderStatus(
        folder,
        exists=True,
        state=published,
        uptime_s=time.time() - published.since if published else 0.0,
        rss_bytes=_memory(published) if published else 0,
        data_bytes=size_of(folder),
        exposed=tuple(_exposed(folder)),
    )


def _stopped(folder: Path) -> FolderStatus:
    published = state.read(folder)
    failed = published is not None and bool(published.reason)
    return FolderStatus(
        folder,
        exists=True,
        orphan=_orphan(folder),
        stale=published is not None and not failed,
        failure=published.message if published and failed else "",
        data_bytes=size_of(folder),
        unfinished=tuple(sorted(folder.glob("data.new-*"))),
        exposed=tuple(_exposed(folder)),
    )


def _orphan(folder: Path) -> Identity | None:
    record = read_json(folder / state.CHILD_FILE) or {}
    if "pid" not in record:
        return None
    child = Identity(int(record["pid"]), str(record.get("started")))
    return child if process.alive(child) else None


def _memory(published: State) -> int:
    """Resident bytes of the server and its children. Shared pages count once for each: an upper bound."""
    import psutil

    if published.child is None or not process.alive(published.child):
        return 0
    try:
        server = psutil.Process(published.child.pid)
        return sum(int(p.memory_info().rss) for p in (server, *server.children(recursive=True)))
    except psutil.Error:  # one of them ended while we looked
        return 0


def size_of(folder: Path) -> int:
    """Bytes of the regular files under `folder`; what vanishes or is closed to us counts as nothing."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return total


def _exposed(folder: Path) -> list[Path]:
    """Secrets that others could read."""
    return [path for path in sorted(folder.glob("*password")) if others_can_read(path)]
