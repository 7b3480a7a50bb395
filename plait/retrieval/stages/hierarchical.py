"""Boosts between parts of one symbol and between turns of one session; neighbours to be joined into one piece."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking import coherence, threads
from plait.retrieval.search_context import Deps, SearchContext

# For so many of the best, a later part of a symbol is joined to its first part, which has the signature. All parts
# have the symbol's name, so only the store knows the first.
MOST_HEADS = 24


async def hierarchical(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Parts of one symbol boost each other, and so do adjacent turns; for a context also the items to join (`also`)."""
    groups = coherence.by_symbol(ctx.order, ctx.places)
    boosted = coherence.part_boost(groups.values(), ctx.places, ctx.fused, ctx.analysis.words)
    if boosted:
        fused = {**ctx.fused, **boosted}
        ctx = replace(ctx, fused=fused, order=sorted(ctx.order, key=lambda id_: -fused[id_]))
    ctx = await _threaded(ctx, deps)
    if ctx.options is None:
        return ctx
    also = coherence.neighbours(ctx.order, ctx.places)
    for id_, head in (await _heads(ctx, deps)).items():
        also[id_] = (head, *(other for other in also.get(id_, ()) if other != head))
    return replace(ctx, also={**ctx.also, **also})


async def _threaded(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`ctx` with the neighbour boost of turns; unchanged if none of the best is of a session."""
    if not any(map(threads.in_thread, ctx.places.values())):
        return ctx
    words = threads.by_words(ctx.rankings, ctx.strategy.weights)
    best = threads.seeds(ctx.order, ctx.places, words)
    if not best:
        return ctx
    around = await deps.store.around(ctx.at, best, ctx.query.where, threads.WEIGHTS.reach)
    turns = [id_ for id_ in ctx.order if threads.in_thread(ctx.places[id_])]
    scores = threads.neighbour_boost(around, ctx.fused, turns, words)
    # A turn that no arm found has only its neighbours' boost and was never among the best: see
    # docs/experiments/conversations.md.
    fused = {**ctx.fused, **{id_: scores[id_] for id_ in scores if id_ in ctx.places}}
    order = sorted(ctx.order, key=lambda id_: -fused[id_])
    ctx = replace(ctx, fused=fused, order=order, first_turns=threads.first_turns(around))
    if ctx.options is None:
        return ctx
    return replace(ctx, before=threads.before(around, ctx.places))


async def _heads(ctx: SearchContext, deps: Deps) -> dict[ItemId, ItemId]:
    """By later part of a symbol among the best, its first part."""
    best = [id_ for id_ in ctx.order if _in_parts(ctx.places[id_])][:MOST_HEADS]
    if not best:
        return {}
    places = [ctx.places[id_] for id_ in best]
    symbols = [(place.repo, place.path, place.symbol) for place in places]
    first = await deps.store.chunks_of(ctx.at, symbols, ctx.query.where)
    return {
        id_: head for id_, head in zip(best, first, strict=True) if head is not None and head != id_
    }


def _in_parts(place: Place) -> bool:
    """Whether its symbol may have several chunks."""
    code = place.collection is Collection.FILES and bool(place.symbol)
    return code and place.kind not in coherence.APART
