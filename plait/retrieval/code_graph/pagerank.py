"""Personalised PageRank over a code graph from a few seeds: nodes that many short paths connect to them.

Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors", FOCS 2006: mass is pushed on from a
node only while its residual is at least ε times its degree, so the work is at most 1/(ε·α) however large the graph
is. Here all such nodes are pushed at once, one round at a time, with numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plait.ports import CodeGraph
from plait.retrieval.ranking.weights import DEFAULT

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Walk:
    """`alpha`: the chance to stay, so that one step away counts 1 − α. `hubs`: a neighbour of degree d
    is reached with d^−hubs of the weight. `epsilon`, `rounds`, `most_edges`: bounds of the work."""

    alpha: float = 0.5
    hubs: float = 0.5
    epsilon: float = 1e-4
    rounds: int = 4
    most_edges: int = 5_000  # of one round
    weights: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: DEFAULT.graph.pagerank
    )


def near(graph: CodeGraph, seeds: Mapping[int, float], walk: Walk, k: int) -> dict[int, float]:
    """The `k` rows with the most mass, seeds among them, best first, ties by row; masses add up to less
    than 1, since the mass of a node without edges is lost. `seeds`: row → weight > 0."""
    n = len(graph.ids)
    if not seeds or not n:
        return {}
    # In order of rows: sums of floats depend on the order, and equal seeds give equal masses.
    rows = np.array(sorted(seeds), np.int64)
    given = np.array([seeds[row] for row in sorted(seeds)], np.float64)
    settled, waiting = np.zeros(n), np.zeros(n)
    waiting[rows] = given / given.sum()
    reached = [rows]
    outward, inward = _by_relation(graph, walk)
    front = rows
    for _ in range(walk.rounds):
        degree = _degree(graph, front)
        pushed = waiting[front] >= walk.epsilon * degree
        front, degree = front[pushed], degree[pushed]
        if not len(front):
            break
        front = _bounded(front, degree, waiting[front], walk.most_edges)
        mass = waiting[front]
        waiting[front] = 0.0
        settled[front] += walk.alpha * mass
        owner, other, share = _spread(graph, front, outward, inward, walk.hubs)
        np.add.at(waiting, other, share * ((1.0 - walk.alpha) * mass[owner]))
        front = np.unique(other)
        reached.append(front)
    return _best(settled + walk.alpha * waiting, np.unique(np.concatenate(reached)), k)


def _by_relation(graph: CodeGraph, walk: Walk) -> tuple[Floats, Floats]:
    pairs = np.array([walk.weights.get(r, (0.0, 0.0)) for r in graph.relations], np.float64)
    return pairs[:, 0], pairs[:, 1]


def _degree(graph: CodeGraph, rows: Rows) -> Rows:
    out, into = graph.out_start, graph.in_start
    degree: Rows = out[rows + 1] - out[rows] + into[rows + 1] - into[rows]
    return degree


def _bounded(front: Rows, degree: Rows, mass: Floats, most: int) -> Rows:
    """The rows of `front` with the most mass an edge, as many as have at most `most` edges together."""
    if int(degree.sum()) <= most:
        return front
    order = np.argsort(-mass / np.maximum(degree, 1), kind="stable")
    bounded: Rows = front[order[np.cumsum(degree[order]) <= most]]
    return bounded


def _spread(
    graph: CodeGraph, front: Rows, outward: Floats, inward: Floats, hubs: float
) -> tuple[Rows, Rows, Floats]:
    """Edges of `front`: index of their owner in it, the neighbour, and the share of the mass that it receives."""
    owner, other, weight = [], [], []
    place = np.arange(len(front))
    for start, far, relation, confidence, factor in (
        (graph.out_start, graph.out_other, graph.out_relation, graph.out_weight, outward),
        (graph.in_start, graph.in_other, graph.in_relation, graph.in_weight, inward),
    ):
        counts = start[front + 1] - start[front]
        ends = np.cumsum(counts)
        at = np.arange(int(ends[-1])) + np.repeat(start[front] - ends + counts, counts)
        owner.append(np.repeat(place, counts))
        other.append(far[at].astype(np.int64))
        weight.append(factor[relation[at]] * confidence[at])
    owners, others, weights = map(np.concatenate, (owner, other, weight))
    if hubs:
        weights = weights * _degree(graph, others).astype(np.float64) ** -hubs
    total = np.bincount(owners, weights, minlength=len(front))
    share = np.divide(weights, total[owners], out=np.zeros_like(weights), where=total[owners] > 0)
    return owners, others, share


def _best(mass: Floats, reached: Rows, k: int) -> dict[int, float]:
    reached = reached[mass[reached] > 0.0]
    order = np.lexsort((reached, -mass[reached]))[:k]
    return dict(zip(reached[order].tolist(), mass[reached[order]].tolist(), strict=True))
