"""Fuse the arms into one list, and read the locations of its best."""

from __future__ import annotations

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
    return changed(ctx, fused=fused, places=places, order=list(places))
