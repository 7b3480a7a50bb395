"""Code and tests that a change affects: a bounded backward walk of the code graph. Pure.

An edge passes on `confidence × weight of its relation`. Along a path these multiply; of several paths the best
counts (Dijkstra over products, by levels).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from plait.domain.graph import Relation
from plait.ports import CodeGraph
from plait.retrieval.ranking.weights import DEFAULT

HOPS = 3
WEIGHTS = DEFAULT.graph
MAX_REACHED = 5_000  # nodes; a hub of a large repository has more callers than can be read
MAX_FAN = 2_000  # edges followed from one node

CALLS, IMPORTS, INHERITS = (
    Relation.CALLS.value,
    Relation.IMPORTS.value,
    Relation.INHERITS.value,
)
OVERRIDES, CONTAINS, VALIDATED_BY = (
    Relation.OVERRIDES.value,
    Relation.CONTAINS.value,
    Relation.VALIDATED_BY.value,
)


@dataclass(frozen=True, slots=True)
class Reached:
    """`distance` in hops, 0 is the seed itself. `via`: the relation of the last hop."""

    row: int
    score: float
    distance: int
    via: str


def reach(graph: CodeGraph, seeds: Mapping[int, float], hops: int = HOPS) -> dict[int, Reached]:
    """The nodes that a change of `seeds` (row → confidence, 0 to 1) may break, including the seeds. Linear in the
    edges of the reached nodes; follows the order of the graph, so equal graphs give equal results."""
    found = {row: Reached(row, score, 0, "") for row, score in seeds.items()}
    front = dict(found)
    for distance in range(1, hops + 1):
        step: dict[int, Reached] = {}
        for row, at in sorted(front.items()):
            for other, relation, passed in _neighbours(graph, row):
                score = at.score * passed
                known = step.get(other) or found.get(other)
                if score < WEIGHTS.least_reached or (known is not None and known.score >= score):
                    continue
                nearest = min(known.distance, distance) if known is not None else distance
                if nearest:  # a seed keeps distance 0
                    step[other] = Reached(other, score, nearest, relation)
        best = sorted(step.values(), key=lambda r: (-r.score, r.row))
        front = {r.row: r for r in best[: max(0, MAX_REACHED - len(found))]}
        found.update(front)
        # The walk ends at tests: only runners call them.
        front = {row: r for row, r in front.items() if not graph.is_test[row]}
    return found


def tests(graph: CodeGraph, found: Mapping[int, Reached]) -> list[Reached]:
    """The tests among `found` by descending score, ties by distance."""
    best: dict[int, Reached] = {}
    for reached in found.values():
        row = test_around(graph, reached.row)
        if row is None:
            continue
        known = best.get(row)
        if known is None or known.score < reached.score:
            best[row] = Reached(row, reached.score, reached.distance, reached.via)
    return sorted(best.values(), key=lambda r: (-r.score, r.distance, r.row))


def modules(graph: CodeGraph, path: str) -> list[int]:
    """The rows of the modules in `path`, which represent its lines outside functions and classes; else the row of
    the file."""
    file = graph.row.get(f"/{path}")
    return [] if file is None else children(graph, file) or [file]


def importers(graph: CodeGraph, modules: Mapping[int, float]) -> dict[int, Reached]:
    """The importers of `modules` (whose module-level lines changed) and the tests that they contain."""
    found: dict[int, Reached] = {}

    def meet(row: int, score: float, relation: str) -> None:
        known = found.get(row)
        if score >= WEIGHTS.least_reached and (known is None or known.score < score):
            found[row] = Reached(row, score, 1, relation)

    for module, sure in sorted(modules.items()):
        for other, relation, weight in edges_in(graph, module):
            if relation != IMPORTS or other in modules or len(found) >= MAX_REACHED:
                continue
            meet(other, sure * WEIGHTS.imported * weight, IMPORTS)
            for child in children(graph, other):
                if graph.is_test[child]:
                    meet(child, sure * WEIGHTS.imported * weight, IMPORTS)
    return found


def children(graph: CodeGraph, row: int) -> list[int]:
    """The nodes that `row` contains."""
    return [other for other, relation, _ in edges_out(graph, row) if relation == CONTAINS]


def owner(graph: CodeGraph, row: int) -> int | None:
    """The node that contains `row`, if any."""
    for other, relation, _ in edges_in(graph, row):
        if relation == CONTAINS:
            return other
    return None


def test_around(graph: CodeGraph, row: int) -> int | None:
    """`row` if it is a test, else the test that contains it, else None."""
    at: int | None = row
    for _ in range(8):
        if at is None or graph.is_test[at]:
            return at
        at = owner(graph, at)
    return None


def row_of(graph: CodeGraph, path: str, symbol: str) -> int | None:
    """The row of a chunk's symbol (later parts have the suffix `#n`). If several files define the name, the one in
    `path`."""
    name = symbol.partition("#")[0]
    for id_ in (f"{name}@{path}", name):
        row = graph.row.get(id_)
        if row is not None and (not path or graph.paths[row] == path):
            return row
    return None


def _neighbours(graph: CodeGraph, row: int) -> Iterator[tuple[int, str, float]]:
    for other, relation, weight in edges_in(graph, row):
        if relation in WEIGHTS.back:
            yield other, relation, weight * WEIGHTS.back[relation]
    for other, relation, weight in edges_out(graph, row):
        if relation in WEIGHTS.forth:
            yield other, relation, weight * WEIGHTS.forth[relation]
    # Code inside a test, such as a view function, runs when the test does.
    around = test_around(graph, row)
    if around is not None and around != row:
        yield around, CONTAINS, 1.0


def edges_in(graph: CodeGraph, row: int) -> Iterator[tuple[int, str, float]]:
    """The edges that end at `row`: their other end, relation and confidence; at most `MAX_FAN`."""
    yield from _edges(
        graph, row, graph.in_start, graph.in_other, graph.in_relation, graph.in_weight
    )


def edges_out(graph: CodeGraph, row: int) -> Iterator[tuple[int, str, float]]:
    """As `edges_in`, of those that begin at `row`."""
    yield from _edges(
        graph, row, graph.out_start, graph.out_other, graph.out_relation, graph.out_weight
    )


def _edges(
    graph: CodeGraph,
    row: int,
    start: np.typing.NDArray[np.int64],
    other: np.typing.NDArray[np.int32],
    relation: np.typing.NDArray[np.int8],
    weight: np.typing.NDArray[np.float32],
) -> Iterator[tuple[int, str, float]]:
    low = int(start[row])
    high = min(int(start[row + 1]), low + MAX_FAN)
    for n, r, w in zip(
        other[low:high].tolist(),
        relation[low:high].tolist(),
        weight[low:high].tolist(),
        strict=True,
    ):
        yield n, graph.relations[r], w
