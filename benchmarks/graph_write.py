"""What writing a repository's graph costs, in CPU s of the client and of the server.

    plait index PATH --export graph.jsonl
    python -m benchmarks.graph_write graph.jsonl                     the embedded server
    python -m benchmarks.graph_write graph.jsonl --neo4j 5.26.30     a real Neo4j (see tests/neo4j_server.py)

Each run starts a server with empty data. Printed: start; the first projection; one file changed; the
same event again; p50 of a few questions; the removal. `--profile FILE` writes the client's profile.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import random
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

import graph
from graph.store import CypherStore
from plait.domain.deadline import Deadline
from plait.domain.graph import Edge, Label, Node
from plait.ports import GraphDelta
from tests.contract.graph_servers import GraphServer, running
from tests.neo4j_server import Neo4jServers

REPO = "bench"


def read_export(path: Path) -> tuple[list[Node], list[Edge]]:
    """Nodes and edges of a `plait index --export` file."""
    decoder = msgspec.json.Decoder()
    nodes: list[Node] = []
    edges: list[Edge] = []
    for line in path.read_bytes().splitlines():
        row = decoder.decode(line)
        if row["type"] == "node":
            nodes.append(Node(**{k: v for k, v in row.items() if k != "type"}))
        else:
            edges.append(
                Edge(
                    row["relation"],
                    row["from"],
                    row["to"],
                    tuple(row.get("lines") or ()),
                    row.get("resolver") or "",
                    1.0 if row.get("confidence") is None else row["confidence"],
                )
            )
    return nodes, edges


def event(event_id: int, **given: Any) -> GraphDelta:
    values: dict[str, Any] = {
        "event_id": event_id,
        "repo": REPO,
        "number": event_id,
        "fresh": False,
        "drop_edges": (),
        "drop_nodes": (),
        "nodes": (),
        "edges": (),
    }
    return GraphDelta(**{**values, **given})


class Meter:
    """Prints wall s and the CPU s that this process and the server spent on a piece of work."""

    def __init__(self, server: GraphServer) -> None:
        self._server = psutil.Process(server.pid)
        self._client = psutil.Process()

    def spent(self) -> tuple[float, float, float]:
        mine, its = self._client.cpu_times(), self._server.cpu_times()
        return time.perf_counter(), mine.user + mine.system, its.user + its.system

    async def run(self, title: str, work: Callable[[], Awaitable[Any]]) -> None:
        before = self.spent()
        await work()
        wall, client, server = (b - a for a, b in zip(before, self.spent(), strict=True))
        print(f"{title:<28} wall {wall:6.2f} s   client {client:5.2f} s   server {server:6.2f} s")


def one_file(nodes: list[Node], edges: list[Edge]) -> GraphDelta:
    """The delta of an edit in the file with the most symbols: its lines move, its edges are made anew."""
    paths = [node.path for node in nodes if node.label != Label.FILE]
    path = Counter(paths).most_common(1)[0][0]
    moved = [
        msgspec.structs.replace(node, start_line=node.start_line + 1)
        for node in nodes
        if node.path == path
    ]
    mine = {node.id for node in moved}
    out = [edge for edge in edges if edge.source in mine]
    print(f"one file: {path}, {len(moved)} nodes, {len(out)} edges")
    return event(2, nodes=moved, drop_edges=out, edges=out)


async def questions(store: CypherStore, nodes: list[Node], edges: list[Edge]) -> None:
    callers: dict[str, int] = {}
    for edge in edges:
        if edge.relation == "CALLS":
            callers[edge.target] = callers.get(edge.target, 0) + 1
    hub = max(callers, key=lambda id_: callers[id_])
    some = random.Random(1).sample(sorted(callers), min(30, len(callers)))
    print(f"hub: {hub}, {callers[hub]} callers")
    start = "MATCH (s:Function {id: $symbol})"
    asked = {
        "callers": start + "<-[calls:CALLS]-(caller) RETURN caller, calls",
        "callees": start + "-[calls:CALLS]->(callee) RETURN callee, calls",
    }
    for name, symbols in (
        ("callers", some),
        ("callees", some),
        ("callers", [hub] * 5),
    ):
        times = []
        for symbol in symbols:
            begin = time.perf_counter()
            await store.query(
                asked[name], {"symbol": symbol}, max_rows=1000, deadline=Deadline.after(60.0)
            )
            times.append((time.perf_counter() - begin) * 1e3)
        of = "the hub" if symbols[0] == hub else f"{len(some)} symbols"
        print(
            f"{name + ' of ' + of:<28} p50 {statistics.median(times):6.1f} ms   max {max(times):6.1f} ms"
        )


async def measure(server: GraphServer, path: Path, profile: Path | None) -> None:
    nodes, edges = read_export(path)
    print(f"{server.name}: {len(nodes)} nodes, {len(edges)} edges")
    meter = Meter(server)
    print(f"{'server start':<28} {'':42}server {meter.spent()[2]:6.2f} s")
    opened: list[CypherStore] = []

    async def open_() -> None:
        opened.append(await graph.open(server.settings))

    await meter.run("open, schema", open_)
    (store,) = opened
    first = event(1, fresh=True, nodes=nodes, edges=edges)
    profiler = cProfile.Profile(time.process_time)
    if profile:
        profiler.enable()
    await meter.run("first projection", lambda: store.apply(first))
    if profile:
        profiler.disable()
        profiler.dump_stats(profile)
    print(f"{'server so far':<28} {'':42}server {meter.spent()[2]:6.2f} s")
    await meter.run("the same event again", lambda: store.apply(first))
    second = one_file(nodes, edges)
    await meter.run("one file changed", lambda: store.apply(second))
    await meter.run("counts", lambda: store.counts(REPO))
    await questions(store, nodes, edges)
    await meter.run("removal", lambda: store.apply(event(3, number=0, remove_repo=True)))
    await store.close()


@contextlib.contextmanager
def fresh_server(name: str) -> Iterator[GraphServer]:
    home = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    with (
        contextlib.ExitStack() as stack,
        running(name, home / "home", Neo4jServers(stack)) as server,
    ):
        yield server
    shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("export", type=Path)
    parser.add_argument("--neo4j", metavar="VERSION", default="")
    parser.add_argument("--profile", type=Path)
    given = parser.parse_args()
    with fresh_server(given.neo4j or "arcadedb") as server:
        asyncio.run(measure(server, given.export, given.profile))


if __name__ == "__main__":
    main()
