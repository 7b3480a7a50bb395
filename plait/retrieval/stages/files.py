"""Boost files with several matching chunks, and diversify the first hits over files."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import ItemId
from plait.retrieval.ranking import files as by_file
from plait.retrieval.search_context import Deps, SearchContext, changed


async def files(ctx: SearchContext, deps: Deps) -> SearchContext:
    """For searches only; packing joins related chunks for a context. The best hit keeps its score."""
    order = list(ctx.order)
    scores = [ctx.fused[id_] for id_ in order]
    top = max(scores)
    factors: dict[str, Mapping[ItemId, float]] = {}
    for name, factors_of in (("file", by_file.coherent), ("again", by_file.spread)):
        found = factors_of([ctx.places[id_] for id_ in order], scores)
        if said := {i: f for i, f in zip(order, found, strict=True) if f is not None}:
            factors[name] = said
        scores = [s if f is None else s * f for s, f in zip(scores, found, strict=True)]
        ranked = by_file.by_score(scores)
        order, scores = [order[at] for at in ranked], [scores[at] for at in ranked]
    # Scaled so that the best keeps its fused score, which is the confidence in it.
    scale = top / scores[0] if scores[0] > 0.0 else 1.0
    fused = {id_: min(1.0, score * scale) for id_, score in zip(order, scores, strict=True)}
    return changed(ctx, fused=fused, order=order, factors={**ctx.factors, **factors})
