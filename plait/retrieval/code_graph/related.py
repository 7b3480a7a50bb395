"""Items related to seeds: in code by PageRank, in memory by one link. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from plait.domain.values import Collection, ItemId
from plait.ports import CodeGraph, MemoryLink, Place
from plait.retrieval.code_graph import pagerank
from plait.retrieval.code_graph.pagerank import Walk
from plait.retrieval.ranking.weights import DEFAULT

Node = tuple[str, str]  # repo, node id without `repo:`

WEIGHTS = DEFAULT.graph
# Node ids that are not code; only `RelationStore.items_of` resolves them.
OF_AGENTS = ("diff/", "memory/", "episode/", "issue/", "commit/")
# The wording of a reason, from the found item to the seed: when the seed is the source, and the target.
WORDS: Mapping[str, tuple[str, str]] = {
    "CALLS": ("called by", "calls"),
    "CONTAINS": ("inside", "holds"),
    "IMPORTS": ("imported by", "imports"),
    "INHERITS": ("a base of", "inherits from"),
    "OVERRIDES": ("overridden by", "overrides"),
    "VALIDATED_BY": ("tests", "tested by"),
    "TOUCHES": ("touched by", "touches"),
    "FIXES": ("fixed by", "fixes"),
    "CAUSES": ("caused by", "causes"),
    "MENTIONS": ("mentioned by", "mentions"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """A node related to seeds. `why`: the strongest direct relation, "" if there is none."""

    node: Node
    score: float
    path: str = ""
    why: str = ""


@dataclass(slots=True)
class Seeds:
    """Weights by node (the largest of several), and its path, "" if unknown."""

    weights: dict[Node, float] = field(default_factory=dict)
    paths: dict[Node, str] = field(default_factory=dict)

    def add(self, node: Node, weight: float, path: str = "") -> None:
        if weight > self.weights.get(node, 0.0):
            self.weights[node] = weight
            self.paths[node] = path

    def rows(self, graph: CodeGraph) -> dict[int, float]:
        """Weights by row of those that are in `graph`."""
        rows: dict[int, float] = {}
        for node, weight in self.weights.items():
            if node[0] == graph.repo and weight > 0.0:
                row = row_of(graph, self.paths[node], node[1])
                if row is not None:
                    rows[row] = max(weight, rows.get(row, 0.0))
        return rows


def row_of(graph: CodeGraph, path: str, symbol: str) -> int | None:
    """The row of a chunk's symbol, or of its file if it has none. If several files define one name, all but the
    first have the suffix `@path`."""
    name = symbol.partition("#")[0] or f"/{path}"
    row = graph.row.get(name)
    if row is not None and path and graph.paths[row] != path:
        return graph.row.get(f"{name}@{path}")
    return row


def symbol_of(graph: CodeGraph, row: int) -> str:
    """The symbol as its chunks have it; "" for a file."""
    name = graph.ids[row]
    return "" if name.startswith("/") else name.removesuffix(f"@{graph.paths[row]}")


def node_of(id_: ItemId, place: Place) -> list[str]:
    """The node ids of the item at `place` in graph and links, most specific first; may be empty."""
    if place.collection is Collection.FILES:
        symbol = place.symbol.partition("#")[0]
        return [symbol, f"/{place.path}"] if symbol else [f"/{place.path}"]
    names = []
    if place.collection is Collection.DIFFS and place.path:
        names.append(f"diff/{id_}/{place.path}")
    if place.collection is Collection.MEMORIES:
        names.append(f"memory/{id_}")
    if place.episode_id is not None:
        names.append(f"episode/{place.episode_id}")
    return names


def in_code(
    graph: CodeGraph,
    rows: Mapping[int, float],
    walk: Walk,
    k: int,
    linked: Mapping[int, str] = MappingProxyType({}),
) -> list[Found]:
    """The `k` symbols with the most mass from the seeds `rows`, best first. A seed counts only the mass from other
    seeds, since its own rank is already the result of the other arms, unless it is `linked` (row → reason): it came
    from a link."""
    masses = pagerank.near(graph, rows, walk, k + len(rows))
    total = sum(rows.values())
    for row, weight in rows.items():
        if row in masses and row not in linked:
            masses[row] = max(0.0, masses[row] - walk.alpha * weight / total)
    found = []
    for row, mass in sorted(masses.items(), key=lambda e: (-e[1], e[0])):
        if mass > 0.0 and not graph.ids[row].startswith("/"):
            why = linked.get(row, "") or direct(graph, row, rows)
            found.append(Found((graph.repo, graph.ids[row]), mass, graph.paths[row], why))
    return found[:k]


def direct(graph: CodeGraph, row: int, seeds: Mapping[int, float]) -> str:
    """The relation of `row` to the heaviest adjacent seed, in words; "" if none is adjacent."""
    best, reason = 0.0, ""
    for start, far, relation, way in (
        (graph.out_start, graph.out_other, graph.out_relation, 1),
        (graph.in_start, graph.in_other, graph.in_relation, 0),
    ):
        first = int(start[row])
        # With few edges, one look-up an edge is ten times faster than numpy's set operations.
        for at, other in enumerate(far[first : int(start[row + 1])].tolist(), first):
            weight = seeds.get(other, 0.0)
            if weight > best and other != row:
                words = WORDS.get(graph.relations[relation[at]])
                if words is not None:
                    best, reason = weight, f"{words[way]} {graph.ids[other].lstrip('/')}"
    return reason


def by_links(
    links: Iterable[MemoryLink], seeds: Mapping[Node, float]
) -> tuple[list[Found], list[Found]]:
    """The nodes one link away from `seeds`, best first: agents' items, and code."""
    items: dict[Node, Found] = {}
    code: dict[Node, Found] = {}
    for link in links:
        source, target = (link.repo, link.source), (link.repo, link.target)
        for near, far, way in ((source, target, 0), (target, source, 1)):
            score = seeds.get(near, 0.0) * WEIGHTS.links.get(link.relation, 0.0) * link.confidence
            if score <= 0.0:
                continue
            into = items if far[1].startswith(OF_AGENTS) else code
            if far not in into or into[far].score < score:
                words = WORDS.get(link.relation)
                into[far] = Found(
                    far, score, why=f"{words[way]} {_called(near[1])}" if words else ""
                )
    return _best_first(items), _best_first(code)


def _best_first(found: Mapping[Node, Found]) -> list[Found]:
    return sorted(found.values(), key=lambda one: (-one.score, one.node))


def _called(name: str) -> str:
    """A node's name in a reason, without opaque ids."""
    kind, _, rest = name.partition("/")
    if kind in ("episode", "memory", "diff"):
        return {"episode": "a run", "memory": "a memory", "diff": "a diff"}[kind]
    return f"{kind} {rest[:40]}" if kind in ("issue", "commit") else name.removeprefix("/")


def issues(names: Sequence[str]) -> list[str]:
    """Node ids of the issues that a text refers to, as `#12` or `KEY-7`."""
    return [f"issue/{name.removeprefix('#')}" for name in names]
