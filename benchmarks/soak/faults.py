"""The faults: each takes the service and a source of chance, does its harm, and says what it did."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import timedelta

from benchmarks.soak.service import Service, resize
from plait.domain import failpoint

Fault = Callable[[Service, random.Random], Awaitable[str]]

WORKER_S = 10.0  # within which an index run has workers
OUTAGE_S = (0.3, 1.2)  # an outage of minutes, scaled: writers don't wait for the graph at all


async def kill_server(service: Service, chance: random.Random) -> str:
    await service.kill()
    return "server killed"


async def kill_postgres(service: Service, chance: random.Random) -> str:
    service.signal_store("postgres", "child", signal.SIGKILL)
    return "postmaster killed"


async def kill_backend(service: Service, chance: random.Random) -> str:
    """One backend dies; the postmaster ends all others and recovers."""
    found = await service.rows(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'plait' ORDER BY pid"
    )
    if not found:
        return "no backend was there"
    pid = chance.choice(found)[0]
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return "the backend was gone"
    return "backend killed"


async def kill_keeper(service: Service, chance: random.Random) -> str:
    """Who restarts a store when it dies is gone itself; the store may live on."""
    store = chance.choice(("postgres", "graph"))
    if not service.signal_store(store, "keeper", signal.SIGKILL):
        return f"no keeper of {store} was there"
    return f"keeper of {store} killed"


async def kill_parse_worker(service: Service, chance: random.Random) -> str:
    """As the kernel does when memory is short: the run goes on without the file."""
    end = asyncio.get_running_loop().time() + WORKER_S
    while asyncio.get_running_loop().time() < end:
        if workers := service.children("etl.parsing.worker"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                return "parse worker killed"
        await asyncio.sleep(0.01)
    return "no parse worker was there"


async def kill_graph(service: Service, chance: random.Random) -> str:
    service.signal_store("graph", "child", signal.SIGKILL)
    return "graph server killed"


async def kill_everything(service: Service, chance: random.Random) -> str:
    """As when the machine's power goes, but for the disk's cache."""
    for store in ("postgres", "graph"):
        service.signal_store(store, "keeper", signal.SIGKILL)
        service.signal_store(store, "child", signal.SIGKILL)
    await service.kill()
    return "server, stores and keepers killed"


async def stop_graph(service: Service, chance: random.Random) -> str:
    pause_s = chance.uniform(*OUTAGE_S)
    if not service.signal_store("graph", "child", signal.SIGSTOP):
        return "no graph server was there"
    try:
        await asyncio.sleep(pause_s)
    finally:
        service.signal_store("graph", "child", signal.SIGCONT)
    return f"graph server stood still for {pause_s:.1f} s"


async def graph_down(service: Service, chance: random.Random) -> str:
    """Its keeper is stopped, so that nobody starts it again before its time."""
    pause_s = chance.uniform(*OUTAGE_S)
    if not service.signal_store("graph", "keeper", signal.SIGSTOP):
        return "no graph server was there"
    try:
        service.signal_store("graph", "child", signal.SIGKILL)
        await asyncio.sleep(pause_s)
    finally:
        service.signal_store("graph", "keeper", signal.SIGCONT)
    return f"graph server away for {pause_s:.1f} s"


async def fill_disk(service: Service, chance: random.Random) -> str:
    pause_s = chance.uniform(*OUTAGE_S)
    resize(service.disk, full=True)
    try:
        await asyncio.sleep(pause_s)
    finally:
        resize(service.disk, full=False)
    return f"disk full for {pause_s:.1f} s"


# What a clock that was ahead by `ahead` would have left behind: the last tick of every repository, and
# the times of all that waits.
SHIFT = """
WITH clocks AS (UPDATE repo_clock SET at = at + %(ahead)s)
UPDATE outbox SET not_before = not_before + %(ahead)s, created_at = created_at + %(ahead)s
"""
# A clock that jumped ahead makes what is kept for a while older.
AGE = """
WITH old AS (UPDATE segment SET replaced_at = replaced_at - %(ahead)s WHERE replaced_at IS NOT NULL)
UPDATE outbox SET not_before = not_before - %(ahead)s, created_at = created_at - %(ahead)s
"""


async def jump_clock(service: Service, chance: random.Random) -> str:
    ahead = timedelta(seconds=chance.choice((1, 60, 3_600, 86_400)))
    back = chance.random() < 0.7
    await service.rows(SHIFT if back else AGE, {"ahead": ahead})
    return f"clock jumped {'back' if back else 'ahead'} by {ahead}"


async def nothing(service: Service, chance: random.Random) -> str:
    """`duplicates`, `command` and `failpoint`: the senders, or the server itself, do it."""
    return ""


FAULTS: Mapping[str, Fault] = {
    "server": kill_server,
    "postgres": kill_postgres,
    "backend": kill_backend,
    "graph": kill_graph,
    "keeper": kill_keeper,
    "parse-worker": kill_parse_worker,
    "command": nothing,
    "everything": kill_everything,
    "graph-stopped": stop_graph,
    "graph-down": graph_down,
    "disk-full": fill_disk,
    "clock": jump_clock,
    "duplicates": nothing,
    "failpoint": nothing,
}
# How often each comes up; failpoints are many, and cost no more than a killed server.
WEIGHTS: Mapping[str, int] = {
    "server": 5, "postgres": 4, "backend": 3, "graph": 3, "keeper": 2, "parse-worker": 2, "command": 2,
    "everything": 2, "graph-stopped": 2,
    "graph-down": 2, "disk-full": 1, "clock": 3, "duplicates": 3, "failpoint": 10,
}  # fmt: skip


def plan(cycles: int, chance: random.Random, *, allowed: Collection[str]) -> list[tuple[str, str]]:
    """`(fault, failpoint to arm)` a cycle: every allowed fault and failpoint once if there is room, then
    by weight, shuffled."""
    faults = [fault for fault in FAULTS if fault in allowed]
    out = [(fault, "") for fault in faults if fault != "failpoint"]
    if "failpoint" in faults:
        out += [("failpoint", f"{name}=kill") for name in failpoint.POINTS]
    weights = [WEIGHTS[fault] for fault in faults]
    while len(out) < cycles:
        (fault,) = chance.choices(faults, weights)
        out.append((fault, _armed(chance) if fault == "failpoint" else ""))
    chance.shuffle(out)
    return out[:cycles]


def _armed(chance: random.Random) -> str:
    name = chance.choice(tuple(failpoint.POINTS))
    action = chance.choices(("kill", "error", "exit", "sleep:300"), (6, 3, 1, 1))[0]
    return f"{name}={action}@{chance.choice((1, 1, 2, 3, 5))}"
