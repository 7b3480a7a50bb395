"""Boost files with several matching chunks, and diversify the first hits over files."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import ItemId
from plait.retrieval.ranking import files as by_file
from plait.retrieval.search_context import Deps, SearchContext, changed


async def files(ctx: SearchContext, deps: Deps) -> SearchContext:
    """For searches only; packing joins related chunks for a context. The best hit keeps its score."""
    scores = {id_: ctx.fused[id_] for id_ in ctx.order}
    factors: dict[str, Mapping[ItemId, float]] = {}
    order = list(ctx.order)
    for name, factors_of in (("file", by_file.coherent), ("again", by_file.spread)):
        factors[name] = factors_of(order, ctx.places, scores)
        scores = {id_: scores[id_] * factors[name].get(id_, 1.0) for id_ in order}
        order.sort(key=lambda id_: -scores[id_])
    # Scaled so that the best keeps its fused score, which is the confidence in it.
    top, best = max(ctx.fused[id_] for id_ in order), scores[order[0]]
    scale = top / best if best > 0.0 else 1.0
    fused = {id_: min(1.0, scores[id_] * scale) for id_ in order}
    applied = {name: f for name, f in factors.items() if f}
    return changed(ctx, fused=fused, order=order, factors={**ctx.factors, **applied})
