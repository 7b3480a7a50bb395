"""From coarse to fine: what the parts of a symbol say of it, neighbours joined into one piece."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.values import Collection, ItemId
from plait.retrieval import coherence
from plait.retrieval.context import Deps, SearchContext

# Of a symbol's later parts so many are shown with its first one, which has the signature.
MOST_HEADS = 24


async def hierarchical(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Parts of one symbol lift each other; for a context also what reads as one piece (`also`)."""
    groups = coherence.by_symbol(ctx.order, ctx.places)
    lifted = coherence.lifted(groups.values(), ctx.places, ctx.fused, ctx.asked.words)
    if lifted:
        fused = {**ctx.fused, **lifted}
        ctx = replace(ctx, fused=fused, order=sorted(ctx.order, key=lambda id_: -fused[id_]))
    if ctx.options is None:
        return ctx
    also = coherence.neighbours(ctx.order, ctx.places)
    for id_, head in (await _heads(ctx, deps)).items():
        also[id_] = (head, *(other for other in also.get(id_, ()) if other != head))
    return replace(ctx, also={**ctx.also, **also})


async def _heads(ctx: SearchContext, deps: Deps) -> dict[ItemId, ItemId]:
    """By later part of a symbol the first one, of the best."""
    later = [
        id_
        for id_ in ctx.order
        if "#" in ctx.places[id_].symbol and ctx.places[id_].collection is Collection.FILES
    ][:MOST_HEADS]
    if not later:
        return {}
    symbols = [symbol for id_ in later if (symbol := coherence.symbol_of(ctx.places[id_]))]
    first = await deps.store.chunks_of(ctx.at, symbols, ctx.query.where)
    return {
        id_: head
        for id_, head in zip(later, first, strict=True)
        if head is not None and head != id_
    }
