"""Fuse the arms into one list, and read the locations of its best."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import Candidate, Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking import fusion
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext, changed

WEIGHTS = DEFAULT.arms


def placed(ctx: SearchContext) -> int:
    """How many of the best have their location read."""
    return max(WEIGHTS.placed, 2 * ctx.k)


async def fetch(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fuse all rankings first, so that a single arm can bring an item in; then cut."""
    ctx = await _completed(ctx, deps)
    unite = fusion.rrf if ctx.fusion == "rrf" else fusion.minmax
    fused = unite(ctx.rankings, ctx.strategy.weights)
    order = fusion.order(fused, ctx.rankings)
    head = order[: placed(ctx)]
    places = await deps.store.places(ctx.at, head) if head else {}
    _touch(ctx, deps, places)
    return changed(ctx, fused=fused, places=places, order=list(places))


async def _completed(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`ctx` with what words found and the arm by meaning missed, though it is as near as what that found: of many of
    agents' items it is approximate. What both arms should have found is what comes first."""
    found, k = ctx.rankings.get("semantic", ()), deps.settings.candidates
    collections = ctx.query.where.collections or tuple(Collection)
    agents = any(collection is not Collection.FILES for collection in collections)
    if ctx.query_vector is None or len(found) < k or not agents:
        return ctx
    known = {c.id for c in found}
    others = [c.id for c in ctx.rankings.get("lexical", ()) if c.id not in known]
    missed = await deps.store.missed(ctx.at, ctx.query_vector, others) if others else {}
    near = [Candidate(id_, cosine) for id_, cosine in missed.items() if cosine >= found[-1].score]
    if not near:
        return ctx
    ranked = sorted((*found, *near), key=lambda c: (-c.score, c.id.int))[:k]
    return changed(ctx, rankings={**ctx.rankings, "semantic": ranked})


def _touch(ctx: SearchContext, deps: Deps, places: Mapping[ItemId, Place]) -> None:
    """Tell which code this query came upon, of repositories that lack vectors: they are made for it first."""
    lacking = {r.repo for r in ctx.at.revisions if r.embedded < r.chunks}
    if deps.tiers == "static" or not lacking:
        return
    for repo in sorted(lacking):
        code = [i for i, p in places.items() if p.repo == repo and p.collection is Collection.FILES]
        if code:
            deps.touch(repo, code)
