"""Steps along the edges of a code graph, many nodes at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait.domain.graph import Relation
from plait.ports import CodeGraph

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Steps:
    """The edges of one relation at some rows, in the order of those: columns of shape (m,)."""

    relation: Relation
    source: Ints
    target: Ints
    edge: Ints
    weight: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.edge)


def out_of(graph: CodeGraph, rows: npt.ArrayLike, relation: Relation) -> Steps:
    """The edges whose source is one of `rows`."""
    near, at = _at(graph, graph.out_start, rows, graph.out_relation, relation)
    return Steps(relation, near, graph.out_other[at], graph.out_edge[at], graph.out_weight[at])


def into(graph: CodeGraph, rows: npt.ArrayLike, relation: Relation) -> Steps:
    """The edges whose target is one of `rows`."""
    near, at = _at(graph, graph.in_start, rows, graph.in_relation, relation)
    return Steps(relation, graph.in_other[at], near, graph.in_edge[at], graph.in_weight[at])


def _at(
    graph: CodeGraph,
    start: npt.NDArray[np.int64],
    rows: npt.ArrayLike,
    relations: npt.NDArray[np.int8],
    relation: Relation,
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """For each edge of `rows` its row, and its place in the columns."""
    chosen = np.asarray(rows, np.int32)
    if graph.asks is not None:
        graph.asks(chosen)
    begin = start[chosen]
    count = start[chosen + 1] - begin
    # 0, 1, 2 … within each row's edges.
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(begin, count) + within
    mine = relations[at] == graph.relations.index(relation)
    return np.repeat(chosen, count)[mine], at[mine]


def inside(graph: CodeGraph, row: int, depth: int) -> list[int]:
    """`row`, and what it contains down to `depth` levels, each once."""
    seen = {row: None}
    level = [row]
    for _ in range(depth):
        if not level:
            break
        found = dict.fromkeys(out_of(graph, level, Relation.CONTAINS).target.tolist())
        level = [one for one in found if one not in seen]
        seen.update(dict.fromkeys(level))
    return list(seen)


def levels_into(
    graph: CodeGraph, row: int, relation: Relation, depth: int
) -> Iterator[tuple[int, Steps]]:
    """Backwards from `row`, breadth first: each distance and one edge to each node that is first reached
    there, by the id of that node. Each edge is looked at once."""
    seen = np.zeros(len(graph.ids), np.bool_)
    seen[row] = True
    level: list[int] = [row]
    for distance in range(1, depth + 1):
        found = into(graph, level, relation)
        first = _first(found.source, seen)
        if not len(first):
            return
        ids = [graph.ids[one] for one in found.source[first].tolist()]
        ordered = first[sorted(range(len(ids)), key=ids.__getitem__)]
        level = found.source[ordered].tolist()
        yield distance, taken(found, ordered)


def _first(rows: Ints, seen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The places in `rows` of those not seen yet, each row once; they are seen now."""
    places = np.flatnonzero(~seen[rows])
    _, once = np.unique(rows[places], return_index=True)
    seen[rows[places]] = True
    return places[once]


def taken(steps: Steps, places: npt.ArrayLike) -> Steps:
    """Those at `places`, in that order."""
    at = np.asarray(places, np.int64)
    return Steps(
        steps.relation, steps.source[at], steps.target[at], steps.edge[at], steps.weight[at]
    )


def shortest(graph: CodeGraph, source: int, target: int, depth: int) -> list[Steps]:
    """The edges of a shortest chain of calls, one after another; [] for none. From a function to itself it
    is the shortest way round."""
    seen = np.zeros(len(graph.ids), np.bool_)
    level: list[int] = [source]
    gone: list[Steps] = []
    for _ in range(depth):
        found = out_of(graph, level, Relation.CALLS)
        found = taken(found, _first(found.target, seen))
        gone.append(found)
        if seen[target]:
            return _back(gone, target)
        level = found.target.tolist()
        if not level:
            break
    return []


def _back(gone: list[Steps], target: int) -> list[Steps]:
    chain: list[Steps] = []
    for steps in reversed(gone):
        (at,) = np.flatnonzero(steps.target == target)
        chain.append(taken(steps, [at]))
        target = int(steps.source[at])
    return chain[::-1]
