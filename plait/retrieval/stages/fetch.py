"""Fuse the arms into one list, and read the locations of its best."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import Collection, ItemId
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
    unite = fusion.rrf if ctx.fusion == "rrf" else fusion.minmax
    fused = unite(ctx.rankings, ctx.strategy.weights)
    order = fusion.order(fused, ctx.rankings)
    head = order[: placed(ctx)]
    places = await deps.store.places(ctx.at, head) if head else {}
    _touch(ctx, deps, places)
    return changed(ctx, fused=fused, places=places, order=list(places))


def _touch(ctx: SearchContext, deps: Deps, places: Mapping[ItemId, Place]) -> None:
    """Tell which code this query came upon, of repositories that lack vectors: they are made for it first."""
    lacking = {r.repo for r in ctx.at.revisions if r.embedded < r.chunks}
    if deps.tiers == "static" or not lacking:
        return
    for repo in sorted(lacking):
        code = [i for i, p in places.items() if p.repo == repo and p.collection is Collection.FILES]
        if code:
            deps.touch(repo, code)
