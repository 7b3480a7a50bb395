"""Which processes of a PLAIT_HOME run: the service, and the servers that it uses, with their keepers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from plait.client import discovery
from plait.supervisor import status
from plait.supervisor.process import Identity

WORKER = "server.process.worker"  # as its command line names it


@dataclass(frozen=True, slots=True)
class Member:
    """`role`: service, postgresql or graph, each with the processes that it consists of. `memory_bytes`:
    the proportional set size where the kernel tells it (Linux), else what each process has to itself."""

    role: str
    pids: tuple[int, ...]
    up_s: float
    memory_bytes: int
    workers: int = 0  # processes beside the service's first that answer calls


def take(home: Path) -> tuple[Member, ...]:
    """All that runs for `home`; starts nothing."""
    found = []
    known = discovery.read(home)
    if known is not None and discovery.is_claimed(home):
        found.append(_member("service", (known.pid,), None))
    for role, name in (("postgresql", "postgres"), ("graph", "graph")):
        look = status.look(home / name)
        identities = (look.state.keeper, look.state.child) if look.state else (look.orphan,)
        roots = tuple(one.pid for one in identities if isinstance(one, Identity))
        if roots:
            found.append(_member(role, roots, look.uptime_s))
    return tuple(member for member in found if member.pids)


def _member(role: str, roots: tuple[int, ...], up_s: float | None) -> Member:
    import psutil

    pids: dict[int, int] = {}
    workers = 0
    for root in roots:
        try:
            top = psutil.Process(root)
            up_s = time.time() - top.create_time() if up_s is None else up_s
            for one in (top, *top.children(recursive=True)):
                workers += WORKER in one.cmdline()
                memory = one.memory_full_info()
                pids[one.pid] = int(getattr(memory, "pss", memory.uss))
        except psutil.Error:  # it ended while we looked
            continue
    return Member(role, tuple(pids), up_s or 0.0, sum(pids.values()), workers)
