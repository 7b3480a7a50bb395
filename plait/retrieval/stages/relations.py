"""The relations arm: from the best so far, code by the graph, runs and memories by their links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.domain.gather import all_of
from plait.domain.values import Candidate, Collection, ItemId
from plait.ports import CodeGraph, RelationStore
from plait.retrieval.code_graph import related
from plait.retrieval.code_graph.pagerank import Walk
from plait.retrieval.code_graph.related import Found, Node, Seeds
from plait.retrieval.query.strategy import Kind
from plait.retrieval.ranking import fusion
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, SearchContext

WALK = Walk()
WEIGHTS = DEFAULT.arms
FOUND, LINKED = 40, 40
MOST_REPOS = 3
WAIT_SHARE = 0.2  # of the remaining time, for a graph that is still loading


async def relations(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`relations`: symbols near the seeds; `links`: agents' items one link away. For contexts only:
    for hits their gain was not measurable (docs/experiments/parts-and-graph.md), and they cost two round trips."""
    return await follow(ctx, deps) if ctx.options is not None else ctx


async def follow(ctx: SearchContext, deps: Deps, walk: Walk = WALK) -> SearchContext:
    """`ctx` with the rankings `relations` and `links`."""
    store = deps.relations
    if store is None:
        return ctx
    seeds, files, known = await _seeds(ctx, deps)
    if not seeds.weights:
        return ctx
    linked, code = await _linked(ctx, store, {**files.weights, **seeds.weights})
    fresh = {one.node: one.why for one in code if one.node not in seeds.weights}
    for one in code:
        seeds.add(one.node, one.score, seeds.paths.get(one.node, ""))
    wait_s = min(deps.settings.graph_wait_s, WAIT_SHARE * ctx.deadline.left_s)
    ctx, found = await _near(ctx, store, seeds, fresh, walk, wait_s)
    if not found and not linked:
        return ctx
    chunks, items = await all_of(
        deps.store.chunks_of(ctx.at, [_place(one) for one in found], ctx.query.where),
        store.items_of(ctx.at, [one.node for one in linked], ctx.query.where, LINKED),
    )
    near = {
        id_: one
        for one, id_ in zip(found, chunks, strict=True)
        if id_ is not None and id_ not in known
    }
    by_link: dict[ItemId, Found] = {}
    for one in linked:  # the best first
        for id_ in items.get(one.node, ()):
            by_link.setdefault(id_, one)
    return _with(ctx, near, by_link, known)


async def _seeds(ctx: SearchContext, deps: Deps) -> tuple[Seeds, Seeds, frozenset[ItemId]]:
    """The nodes of the best so far; the files of those that are symbols; all items found so far."""
    fused = fusion.minmax(ctx.rankings, ctx.strategy.weights)
    top = fusion.order(fused, ctx.rankings)[: WEIGHTS.relation_seeds]
    places = await deps.store.places(ctx.at, top) if top else {}
    seeds, files = Seeds(), Seeds()
    for id_, place in places.items():
        for number, name in enumerate(related.node_of(id_, place)):
            if number and place.collection is Collection.FILES:
                files.add((place.repo, name), WEIGHTS.of_file * fused[id_])
            else:
                seeds.add((place.repo, name), fused[id_], place.path)
    for revision in ctx.at.revisions:
        for name in related.issues(ctx.anchors.issues):
            seeds.add((revision.repo, name), 1.0)
    return seeds, files, frozenset(fused)


async def _linked(
    ctx: SearchContext, store: RelationStore, seeds: Mapping[Node, float]
) -> tuple[list[Found], list[Found]]:
    collections = ctx.query.where.collections or tuple(Collection)
    if all(collection == Collection.FILES for collection in collections):
        return [], []
    links = await store.links(ctx.at, list(seeds), 4 * LINKED)
    found, code = related.by_links(links, seeds)
    return found[:LINKED], code


async def _near(
    ctx: SearchContext,
    store: RelationStore,
    seeds: Seeds,
    fresh: Mapping[Node, str],
    walk: Walk,
    wait_s: float,
) -> tuple[SearchContext, list[tuple[Found, CodeGraph]]]:
    """Symbols of the repositories with the most seeds. `fresh`: those found by
    links, with reasons. A graph that is not loaded is named in `degraded`."""
    if Collection.FILES not in (ctx.query.where.collections or tuple(Collection)):
        return ctx, []
    weights: dict[str, float] = {}
    for (repo, _), weight in seeds.weights.items():
        weights[repo] = weights.get(repo, 0.0) + weight
    found: list[tuple[Found, CodeGraph]] = []
    for repo in sorted(weights, key=lambda name: (-weights[name], name))[:MOST_REPOS]:
        graph = await store.code_graph(ctx.at, repo, wait_s=wait_s)
        if graph is not None:
            linked = {
                graph.row[name]: why
                for (owner, name), why in fresh.items()
                if owner == repo and name in graph.row
            }
            near = related.in_code(graph, seeds.rows(graph), walk, FOUND, linked)
            found += [(one, graph) for one in near]
        elif (state := store.graph_state(ctx.at, repo)) in ("loading", "too_large"):
            ctx = replace(ctx, degraded=(*ctx.degraded, Degraded("relations", f"graph_{state}")))
    return ctx, found


def _place(one: tuple[Found, CodeGraph]) -> tuple[str, str, str]:
    found, graph = one
    return (graph.repo, found.path, related.symbol_of(graph, graph.row[found.node[1]]))


def _with(
    ctx: SearchContext,
    near: Mapping[ItemId, tuple[Found, CodeGraph]],
    by_link: Mapping[ItemId, Found],
    known: frozenset[ItemId],
) -> SearchContext:
    """`ctx` with both rankings, their weights, and a reason for each item that is not `known` from another arm."""
    arms: dict[str, Sequence[Candidate]] = {
        "relations": _ranking({id_: one.score for id_, (one, _) in near.items()}),
        "links": _ranking({id_: one.score for id_, one in by_link.items()}),
    }
    at_places = ctx.strategy.kind in (Kind.TRACE, Kind.DIFF)
    weights = {
        "relations": WEIGHTS.relations_at_locations if at_places else WEIGHTS.relations,
        "links": WEIGHTS.links,
    }
    reasons = dict(ctx.reasons)
    found = {id_: one.why for id_, (one, _) in near.items()} | {
        id_: one.why for id_, one in by_link.items()
    }
    for id_, why in found.items():
        if why and id_ not in known:
            reasons[id_] = (*reasons.get(id_, ()), why)
    return replace(
        ctx,
        rankings={**ctx.rankings, **{arm: ranking for arm, ranking in arms.items() if ranking}},
        strategy=replace(ctx.strategy, weights={**weights, **ctx.strategy.weights}),
        reasons=reasons,
    )


def _ranking(scores: Mapping[ItemId, float]) -> list[Candidate]:
    return sorted(
        (Candidate(id_, score) for id_, score in scores.items()), key=lambda c: (-c.score, c.id.int)
    )
