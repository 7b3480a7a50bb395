"""Episodes at a steady rate, and how long after its acknowledgement each is in the graph.

    python -m benchmarks.episode_load --rate 100 --seconds 20 [--neo4j 5.26.30]

Small episodes (a diff, a test result, a note) of an indexed toy repository, sent on time whether or not
earlier ones were answered. Writers and projector share a process, as in a server. At the end the graph
is compared with the truth.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import graph
from etl.project import Projector
from etl.truth import open as open_truth
from etl.verify import Verification, Verifier
from plait.domain.deadline import Deadline
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory import episode as rules
from plait.ports import GraphDelta, GraphStore, Outbox
from plait.retrieval.code_graph.graph_query import read_steady
from plait.settings import Settings, load
from plait.supervisor.lease import wait_stopped
from tests.contract.conftest import index_files
from tests.contract.graph_servers import running
from tests.neo4j_server import Neo4jServers
from vector.server import embedded
from vector.store import Store

REPO = "load"
FILES, FUNCTIONS = 100, 20


def toy() -> dict[str, list[str]]:
    """Files of the toy language: each function calls the next one of its file."""
    return {
        path(f): [f"f{f}x{n}: f{f}x{(n + 1) % FUNCTIONS}" for n in range(FUNCTIONS)]
        for f in range(FILES)
    }


def path(f: int) -> str:
    return f"pkg/m{f}.toy"


def small_episode(n: int, repo: str = REPO, run: str = "") -> Episode:
    """Number `n`: a diff of one hunk, a test result and a note, about one file and one issue."""
    f, line = n % FILES, n % FUNCTIONS + 1
    diff = (
        f"--- a/{path(f)}\n+++ b/{path(f)}\n@@ -{line},1 +{line},1 @@\n"
        f"-f{f}x{line - 1}: old\n+f{f}x{line - 1}: new {n}\n"
    )
    symbol = f"pkg.m{f}.f{f}x{line - 1}"
    artifacts = (
        Artifact(ArtifactKind.DIFF, diff, path(f)),
        Artifact(ArtifactKind.TEST_RESULT, f"{3 + n % 5} passed in 0.{n % 9}s", path(f)),
        Artifact(ArtifactKind.NOTE, f"Run {n}: the guard in {symbol} came too late.", path(f)),
    )
    summary = f"Fix #{n % 50}: check the guard of {symbol} first."
    made = Episode(f"load-{run}{n}", repo, Outcome("success", summary), artifacts, f"agent-{n % 7}")
    return rules.check(made)


@dataclass(slots=True)
class Watch:
    """An outbox that notes when each episode was ended. `done_at`: by episode node id."""

    outbox: Outbox
    expects: int = 0  # episodes; `complete` is set when as many are done
    done_at: dict[str, float] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    deltas: list[int] = field(default_factory=list)  # episodes a delta
    _claimed: dict[int, list[str]] = field(default_factory=dict)

    async def claim(self) -> GraphDelta | None:
        delta = await self.outbox.claim()
        if delta is not None:
            ids = [node.id for node in delta.nodes if node.label == "Episode"]
            self._claimed[delta.event_id] = ids
        return delta

    async def done(self, event_id: int) -> None:
        await self.outbox.done(event_id)
        ids = self._claimed.pop(event_id)
        self.done_at |= dict.fromkeys(ids, time.perf_counter())
        self.deltas.append(len(ids))
        if self.expects and len(self.done_at) >= self.expects:
            self.complete.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.outbox, name)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run; latencies in ms, ascending."""

    server: str
    rate: float
    episodes: int
    seconds: float
    acknowledged: Sequence[float]
    lag: Sequence[float]
    deltas: Sequence[int]
    cpu_s: Mapping[str, float]
    reads: Mapping[str, Sequence[float]]  # what readers waited meanwhile, by what they read
    verified: Verification


@dataclass(slots=True)
class Reads:
    """A reader that asks one thing in Cypher ten times a second, as the server does: of one state."""

    name: str
    cypher: str
    took: list[float] = field(default_factory=list)

    async def read(self, store: Store, held: GraphStore, stop: asyncio.Event) -> None:
        while not stop.is_set():
            begin, deadline = time.perf_counter(), Deadline.after(30.0)
            ask = partial(held.query, self.cypher, {}, max_rows=100, deadline=deadline)
            await read_steady(store.outbox, (REPO,), ask, deadline)
            self.took.append((time.perf_counter() - begin) * 1e3)
            await asyncio.sleep(0.1)


def percentile(ascending: Sequence[float], p: float) -> float:
    return ascending[min(len(ascending) - 1, int(len(ascending) * p))] if ascending else 0.0


async def load_run(
    store: Store, open_graph: Any, *, rate: float, seconds: float, pids: Mapping[str, int]
) -> Figures:
    """Send for `seconds`, wait until all of it is projected, verify."""
    await index_files(store, REPO, toy())
    watch = Watch(store.outbox)
    projector = Projector(watch, open_graph)
    await projector.run_until_idle()
    watch.done_at.clear()
    watch.deltas.clear()
    acknowledged: dict[str, float] = {}
    took: list[float] = []
    stop = asyncio.Event()
    loop = asyncio.create_task(projector.run_forever(stop))
    run = f"{time.time_ns():x}-"

    async def send(n: int) -> None:
        begin = time.perf_counter()
        receipt = await store.episodes.append(small_episode(n, run=run))
        end = time.perf_counter()
        acknowledged[f"{REPO}:episode/{receipt.episode_id}"] = end
        took.append((end - begin) * 1e3)
        projector.wake()

    function = f"(s:Function {{id: '{REPO}:pkg.m1.f1x1'}})"
    file = f"(s:File {{id: '{REPO}:/{path(1)}'}})"
    readers = [
        Reads("callers", f"MATCH {function}<-[calls:CALLS]-(caller) RETURN caller, calls"),
        Reads("history", f"MATCH {file}<-[link:TOUCHES|MENTIONS]-(what) RETURN what, link"),
    ]
    reading = [asyncio.create_task(r.read(store, await open_graph(), stop)) for r in readers]
    before, started = cpu(pids), time.perf_counter()
    total = watch.expects = int(rate * seconds)
    async with asyncio.TaskGroup() as group:
        for n in range(total):
            await asyncio.sleep(max(0.0, started + n / rate - time.perf_counter()))
            group.create_task(send(n))
    await watch.complete.wait()
    ended, after = time.perf_counter(), cpu(pids)
    stop.set()
    await asyncio.gather(loop, *reading)
    lag = sorted((watch.done_at[id_] - at) * 1e3 for id_, at in acknowledged.items())
    verified = await Verifier(store.outbox, open_graph).verify(REPO)
    spent = {name: after[name] - before[name] for name in after}
    return Figures(
        "",
        rate,
        total,
        ended - started,
        sorted(took),
        lag,
        watch.deltas,
        spent,
        {r.name: sorted(r.took) for r in readers},
        verified,
    )


def cpu(pids: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds so far, of each process and its children."""
    out = {}
    for name, pid in pids.items():
        family = [psutil.Process(pid)]
        if name != "client":
            family += family[0].children(recursive=True)
        out[name] = 0.0
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                spent = process.cpu_times()
                out[name] += spent.user + spent.system
    return out


@contextlib.contextmanager
def stores(neo4j: str = "") -> Iterator[tuple[str, Settings, dict[str, int]]]:
    """`(graph's name, settings, pids)` of an embedded PostgreSQL and a graph server, both fresh."""
    home = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    try:
        with (
            contextlib.ExitStack() as stack,
            running(neo4j or "arcadedb", home / "home", Neo4jServers(stack)) as server,
            embedded.ensure(load(environ=server.environment)) as lease,
        ):
            pids = {"client": psutil.Process().pid, "postgres": lease.pid, "graph": server.pid}
            yield server.name, load(environ=server.environment), pids
    finally:
        for lock in home.rglob("keeper.lock"):
            wait_stopped(lock.parent, 30.0)  # its keeper writes until it goes
        shutil.rmtree(home, ignore_errors=True)


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Store, GraphStore]]:
    store = await open_truth(settings)
    graph_store = await graph.open(settings)
    try:
        yield store, graph_store
    finally:
        await graph_store.close()
        await store.close()


def show(f: Figures) -> None:
    def line(title: str, values: Sequence[float]) -> str:
        shown = "   ".join(f"p{p:g} {percentile(values, p / 100):7.1f}" for p in (50, 95, 99))
        return f"{title:<34} {shown}   max {values[-1]:7.1f} ms"

    print(
        f"{f.server}: {f.episodes} episodes at {f.rate:g}/s, all projected after {f.seconds:.1f} s"
    )
    print(line("acknowledged", f.acknowledged))
    print(line("acknowledged to projected (lag)", f.lag))
    for template, took in f.reads.items():
        print(line(f"read {template} meanwhile", took))
    print(f"{len(f.deltas)} deltas, {f.episodes / max(1, len(f.deltas)):.1f} episodes each")
    print("CPU s: " + ", ".join(f"{name} {s:.2f}" for name, s in f.cpu_s.items()))
    v = f.verified
    print(
        f"verified: consistent {v.consistent}, {v.nodes} nodes, {v.edges} edges, {v.took_ms:.0f} ms"
    )
    for example in (*v.missing.examples, *v.extra.examples, *v.different.examples):
        print("  ", example)


async def measure(neo4j: str, rate: float, seconds: float) -> Figures:
    with stores(neo4j) as (name, settings, pids):
        async with opened(settings) as (store, graph_store):

            async def open_graph() -> GraphStore:
                return graph_store

            # A first short run, so that neither server is measured cold.
            await load_run(store, open_graph, rate=20, seconds=3, pids=pids)
            figures = await load_run(store, open_graph, rate=rate, seconds=seconds, pids=pids)
            return Figures(name, *(getattr(figures, f) for f in Figures.__slots__[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--neo4j", metavar="VERSION", default="")
    given = parser.parse_args()
    show(asyncio.run(measure(given.neo4j, given.rate, given.seconds)))


if __name__ == "__main__":
    main()
