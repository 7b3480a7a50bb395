"""What memory costs on both graph servers, beside each other in one run.

    python -m benchmarks.memory_cost --neo4j 5.26.30 [--batches 40] [--rate 100] [--seconds 20]

A batch of 500 memories to the truth without embedding and to the graph; then episodes at a steady rate
(benchmarks/episode_load.py). Every run starts on fresh stores and ends with both compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import uvloop

from benchmarks.episode_load import Figures, load_run, opened, percentile, stores
from benchmarks.memory_batch import SIZE, batch
from etl.project import Projector
from plait.ports import GraphStore
from server.process.serve import collect_seldom
from vector.store import Store

REPO = "batches"
WARM = 3  # batches that are not counted


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ascending ms."""

    name: str
    took: Sequence[float]


@dataclass(frozen=True, slots=True)
class Column:
    """One graph server's figures."""

    server: str
    rows: Sequence[Row]
    consistent: bool


async def batches(store: Store, graph_store: GraphStore, n: int) -> list[Row]:
    """One batch after another, each projected before the next begins."""

    async def open_graph() -> GraphStore:
        return graph_store

    projector = Projector(store.outbox, open_graph)
    truth: list[float] = []
    graph: list[float] = []
    for i in range(-WARM, n):
        writes = batch(REPO, SIZE, i + WARM)
        start = time.perf_counter()
        await store.memories.store("default", writes)
        stored = time.perf_counter()
        await projector.run_until_idle()
        projected = time.perf_counter()
        await store.merger.finished()  # behind the answer, so not counted
        if i >= 0:
            truth.append((stored - start) * 1e3)
            graph.append((projected - stored) * 1e3)
    return [
        Row(f"{SIZE} memories to the truth", sorted(truth)),
        Row(f"the same {SIZE} on to the graph", sorted(graph)),
    ]


async def measure(neo4j: str, n: int, rate: float, seconds: float) -> Column:
    with stores(neo4j) as (name, settings, pids):
        async with opened(settings) as (store, graph_store):

            async def open_graph() -> GraphStore:
                return graph_store

            rows = await batches(store, graph_store, n)
            # A first short run, so that neither server is measured cold.
            await load_run(store, open_graph, rate=20, seconds=3, pids=pids)
            load = await load_run(store, open_graph, rate=rate, seconds=seconds, pids=pids)
            return Column(name, [*rows, *_load_rows(load)], load.verified.consistent)


def _load_rows(load: Figures) -> list[Row]:
    return [
        Row(f"{load.rate:g} episodes/s: acknowledged", load.acknowledged),
        Row(f"{load.rate:g} episodes/s: then in the graph", load.lag),
        *(Row(f"  read `{name}` meanwhile", took) for name, took in load.reads.items()),
    ]


def show(columns: Sequence[Column]) -> None:
    head = "".join(f"{column.server:>33}" for column in columns)
    print(f"{'ms':<36}{head}\n{'':<36}{'     p50      p95      p99        ' * len(columns)}")
    for i, row in enumerate(columns[0].rows):
        cells = "".join(
            "".join(f"{percentile(column.rows[i].took, p):9.1f}" for p in (0.5, 0.95, 0.99))
            + " " * 6
            for column in columns
        )
        print(f"{row.name:<36}{cells} n = {len(row.took)}")
    for column in columns:
        agree = "agree" if column.consistent else "DIFFER"
        print(f"{column.server}: truth and graph {agree}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--neo4j", metavar="VERSION", default="5.26.30", help='"": none')
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    collect_seldom()
    columns = [
        uvloop.run(measure(server, given.batches, given.rate, given.seconds))
        for server in dict.fromkeys(("", given.neo4j))
    ]
    show(columns)
    return 0 if all(column.consistent for column in columns) else 1


if __name__ == "__main__":
    raise SystemExit(main())
