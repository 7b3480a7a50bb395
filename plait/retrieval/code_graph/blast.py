"""Which code and which tests a change reaches: the code graph walked backwards, pure and bounded.

An edge passes on `confidence × weight of its relation`; along a path these multiply, and of several paths
the best counts (a Dijkstra over products, by levels).
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
MAX_REACHED = 5_000  # nodes; a hub of a large repository has more callers than anybody reads
MAX_FAN = 2_000  # edges of one node that are followed

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
    """What a change of `seeds` (row → how sure it is one, 0 to 1) may break, the seeds among it. Linear in
    the edges of what is reached; the order is the graph's, so equal graphs give equal answers."""
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
                if nearest:  # a seed stays one
                    step[other] = Reached(other, score, nearest, relation)
        best = sorted(step.values(), key=lambda r: (-r.score, r.row))
        front = {r.row: r for r in best[: max(0, MAX_REACHED - len(found))]}
        found.update(front)
        # A test is where a walk ends: who calls a test, if anybody does, is a runner.
        front = {row: r for row, r in front.items() if not graph.is_test[row]}
    return found


def tests(graph: CodeGraph, found: Mapping[int, Reached]) -> list[Reached]:
    """The tests among `found`, the surest first, ties by distance."""
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
    """The rows of `path`'s modules, which stand for its lines outside functions and classes; the file's
    own where it has none."""
    file = graph.row.get(f"/{path}")
    return [] if file is None else children(graph, file) or [file]


def importers(graph: CodeGraph, modules: Mapping[int, float]) -> dict[int, Reached]:
    """What imports one of `modules`, whose own lines changed, and the tests written there."""
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
    """What `row` contains."""
    return [other for other, relation, _ in edges_out(graph, row) if relation == CONTAINS]


def owner(graph: CodeGraph, row: int) -> int | None:
    """What contains `row`."""
    for other, relation, _ in edges_in(graph, row):
        if relation == CONTAINS:
            return other
    return None


def test_around(graph: CodeGraph, row: int) -> int | None:
    """The test that `row` is, or is written in; None for neither."""
    at: int | None = row
    for _ in range(8):
        if at is None or graph.is_test[at]:
            return at
        at = owner(graph, at)
    return None


def row_of(graph: CodeGraph, path: str, symbol: str) -> int | None:
    """The node of a chunk's symbol, whose later parts have `#n`. Of a name that several files claim the
    one in `path`."""
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
    # Code that is written inside a test, a view function say, runs when the test does.
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
