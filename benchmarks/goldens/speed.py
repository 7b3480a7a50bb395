"""How fast searches, recalls, queries over memories and indexing are, of one checkout or of two by turns.

    python -m benchmarks.goldens speed [--checkout PATH] [--against PATH] [--rounds N]

With `--against` each request goes to both servers, first to one, then to the other, and the next one in the
opposite order: what else the machine does meets both alike. Wall time is the caller's, a request; CPU time is all
that the home's processes use (server, PostgreSQL, graph server), over a round's requests of one kind. The ratio is
the median over requests (rounds for CPU) of this checkout's time by the other's, with a 95 % bootstrap interval.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.goldens import memory
from benchmarks.goldens.corpus import SEARCHED, commit_messages, folder
from benchmarks.goldens.under_test import Checkout, Server, serving
from benchmarks.goldens.wire import Message
from benchmarks.memory_histories import histories

TREE = "click"
REPO = "memories"
QUERIES = 30  # of each kind a round
Request = tuple[str, Message]
Times = npt.NDArray[np.float64]  # (checkouts, samples)


def measure(checkouts: Sequence[Checkout], cache: Path, rounds: int) -> dict[str, Times]:
    """By what is measured the samples of each checkout: `KIND, wall ms` and `KIND, CPU ms`."""
    root = folder(next(tree for tree in SEARCHED if tree.name == TREE), cache)
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(checkout)) for checkout in checkouts]
        found = _indexing(servers, root, rounds)
        entries = histories(2, memory.SESSIONS)[1].entries
        for server in servers:
            memory._store(server, REPO, entries)
            server.rest()
        for kind, requests in _requests().items():
            found |= _asking(servers, kind, requests, rounds)
    return found


def _requests() -> dict[str, list[Request]]:
    """Distinct texts, so that each is embedded anew; each round asks them with another ending."""
    messages = commit_messages([TREE])[TREE][:QUERIES]
    questions = [q.text for q in histories(2, memory.SESSIONS)[1].questions[:QUERIES]]
    code, kept = {"repositories": [TREE]}, {"repositories": [REPO]}
    recall = {"filter": code, "skip_receipt": True}
    return {
        "Search": [("KnowledgeService.Search", {"query": q, "filter": code}) for q in messages],
        "Recall": [("KnowledgeService.Recall", {"query": q, **recall}) for q in messages],
        "QueryMemories": [("MemoryService.QueryMemories", {"query": q, "filter": kept}) for q in questions],
    }  # fmt: skip


def _asking(
    servers: Sequence[Server], kind: str, requests: Sequence[Request], rounds: int
) -> dict[str, Times]:
    wall: list[list[float]] = [[] for _ in servers]
    cpu: list[list[float]] = [[] for _ in servers]
    for number in range(-1, rounds):  # the first one warms up
        before = [cpu_s(server) for server in servers]
        for n, (method, request) in enumerate(requests):
            asked = {**request, "query": f"{request['query']} {number + 2}"}
            for at in _order(len(servers), n + number):
                took = _timed(partial(servers[at].wire.done, method, asked))
                if number >= 0:
                    wall[at].append(1e3 * took)
        for at, server in enumerate(servers):
            if number >= 0:
                cpu[at].append(1e3 * (cpu_s(server) - before[at]) / len(requests))
    return {f"{kind}, wall ms": np.array(wall), f"{kind}, CPU ms": np.array(cpu)}


def _indexing(servers: Sequence[Server], root: Path, rounds: int) -> dict[str, Times]:
    wall: list[list[float]] = [[] for _ in servers]
    cpu: list[list[float]] = [[] for _ in servers]
    for number in range(rounds):
        for at in _order(len(servers), number):
            before = cpu_s(servers[at])
            name = f"{TREE}-{number}" if number else TREE
            took = _timed(partial(servers[at].index, name, root))
            wall[at].append(1e3 * took)
            cpu[at].append(1e3 * (cpu_s(servers[at]) - before))
    return {"indexing, wall ms": np.array(wall), "indexing, CPU ms": np.array(cpu)}


def _order(count: int, turn: int) -> Sequence[int]:
    return range(count) if turn % 2 else range(count - 1, -1, -1)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_s(server: Server) -> float:
    """CPU seconds that the processes of the server's home have used, those of their ended children too."""
    mine: dict[int, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline", "pid"]):
        words = " ".join(process.info["cmdline"] or ())
        if process.info["pid"] == server.pid or str(server.home) in words:
            mine[process.pid] = process
            try:
                mine |= {child.pid: child for child in process.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
    total = 0.0
    for process in mine.values():
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def report(found: dict[str, Times]) -> None:
    """Medians, and with two checkouts the ratio of the first to the second."""
    for name, times in found.items():
        medians = "  ".join(f"{value:9.1f}" for value in np.median(times, axis=1))
        print(f"{name:24}{medians}{_ratio(times) if len(times) == 2 else ''}")


def _ratio(times: Times) -> str:
    ratios = times[0] / np.maximum(times[1], 1e-9)
    rng = np.random.default_rng(7)
    drawn = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"   × {np.median(ratios):.3f} ({low:.3f} … {high:.3f})"
