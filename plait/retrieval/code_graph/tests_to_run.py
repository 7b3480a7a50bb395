"""Tests to run for a change: those that the graph reaches, those that past runs validated, and those that share
words with it.

    confidence = min(1, reached + WORDS · bm25 / best bm25),   a proven test at least PROVEN · its link's

The call graph is precise but misses dynamic dispatch (requests, plugins, callbacks); words of names find those, so
both scores add up. `benchmarks/tests_to_run.py` has the figures of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plait.domain.graph import Relation
from plait.domain.recall import ImpactNode
from plait.domain.values import Collection
from plait.ports import CodeGraph, View
from plait.retrieval.code_graph import blast
from plait.retrieval.code_graph.test_ids import runnable
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext
from plait.text.tokenize import tokens

WEIGHTS = DEFAULT.graph
MAX_NAMES, MAX_TERMS = 12, 48  # symbols whose names are searched for, and words of them
CANDIDATES = 300  # of the lexical search, including code
BY_WORDS = 100  # tests among them
MAX_LINKS = 400

Scores = Mapping[str, float]


def node(graph: CodeGraph, at: blast.Reached) -> ImpactNode:
    """`at` as a domain value."""
    row = at.row
    id_ = graph.ids[row]
    return ImpactNode(
        f"{graph.repo}:{id_}",
        id_.partition("@")[0].removeprefix("/"),
        graph.paths[row],
        int(graph.lines[row]),
        at.distance,
        at.via,
        round(at.score, 4),
    )


def reached(graph: CodeGraph, found: Mapping[int, blast.Reached]) -> list[ImpactNode]:
    """The tests among `found`, with their runner's ids as names."""
    return [
        replace(node(graph, at), name=runnable(graph.paths[at.row], graph.ids[at.row]))
        for at in blast.tests(graph, found)
    ]


async def proven(
    view: View, deps: Deps, graph: CodeGraph | None, repo: str, symbols: Scores
) -> list[ImpactNode]:
    """Tests that a change of one of `symbols` (node id → weight) turned green."""
    if deps.relations is None or not symbols:
        return []
    best: dict[str, float] = {}
    ends = [(repo, name) for name in symbols]
    for link in await deps.relations.links(view, ends, MAX_LINKS):
        if link.relation == Relation.VALIDATED_BY and link.source in symbols:
            sure = WEIGHTS.proven_test * link.confidence * symbols[link.source]
            best[link.target] = max(best.get(link.target, 0.0), sure)
    return [_proven(graph, repo, test, sure) for test, sure in best.items()]


def _proven(graph: CodeGraph | None, repo: str, test: str, sure: float) -> ImpactNode:
    row = graph.row.get(test) if graph is not None else None
    if graph is None or row is None:  # the name alone is enough to run it
        return ImpactNode(f"{repo}:{test}", test, "", 0, 1, "test-run", round(sure, 4))
    (one,) = reached(graph, {row: blast.Reached(row, sure, 1, "test-run")}) or (
        node(graph, blast.Reached(row, sure, 1, "test-run")),
    )
    return one


async def by_words(
    ctx: SearchContext, deps: Deps, repo: str, symbols: Iterable[str]
) -> list[ImpactNode]:
    """Tests whose path, name and text contain the words of the symbols' names, by BM25."""
    names = list(symbols)[:MAX_NAMES]
    terms = list(dict.fromkeys(word for name in names for word in tokens(name)))[:MAX_TERMS]
    if not terms:
        return []
    where = replace(ctx.query.where, repos=(repo,), collections=(Collection.FILES,))
    candidates = await deps.store.lexical(ctx.at, terms, where, CANDIDATES)
    places = await deps.store.places(ctx.at, [c.id for c in candidates])
    found: dict[str, ImpactNode] = {}
    best = 0.0
    for candidate in candidates:
        place = places.get(candidate.id)
        if place is None or not place.is_test or not place.symbol or place.repo != repo:
            continue
        if len(found) >= BY_WORDS:
            break
        best = best or candidate.score
        name = place.symbol.partition("#")[0]
        share = candidate.score / best if best > 0.0 else 0.0
        one = alike(repo, place.path, name, place.start_line, share)
        found.setdefault(one.id, one)
    return list(found.values())


def alike(repo: str, path: str, symbol: str, line: int, share: float) -> ImpactNode:
    """A test that words found. `share`: its BM25 score, of the best test's."""
    sure = round(WEIGHTS.test_words * share, 4)
    return ImpactNode(
        f"{repo}:{symbol}", runnable(path, symbol), path, line, blast.HOPS + 1, "words", sure
    )


def together(graph: CodeGraph | None, *lists: Sequence[ImpactNode]) -> list[ImpactNode]:
    """One a test, the surest first: the best of what graph and runs say, plus what its words say. Of what
    words alone found, fixtures and helpers of tests are left out."""
    best: dict[str, ImpactNode] = {}
    words: dict[str, ImpactNode] = {}
    for one in (node for nodes in lists for node in nodes):
        mine = words if one.via == "words" else best
        known = mine.get(one.id)
        if known is None or known.confidence < one.confidence:
            mine[one.id] = one
    for id_, one in words.items():
        other = best.get(id_)
        if other is None and not _is_test(graph, one):
            continue
        if other is None:
            best[id_] = one
        else:
            sure = min(1.0, other.confidence + one.confidence)
            best[id_] = replace(other, confidence=round(sure, 4))
    return sorted(best.values(), key=lambda n: (-n.confidence, n.distance, n.id))


def _is_test(graph: CodeGraph | None, one: ImpactNode) -> bool:
    """By the graph; without one, by its own name."""
    if graph is not None:
        row = graph.row.get(one.id[len(graph.repo) + 1 :])
        return row is not None and bool(graph.is_test[row])
    own = one.id.rpartition(":")[2].rpartition(".")[2].lower()
    return own.startswith("test") or own.endswith(("test", "spec"))
