"""The full score: location, name, age, importance, freshness, trust, and the factors of earlier stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from plait.domain.gather import all_of
from plait.domain.off_loop import off_loop
from plait.domain.recall import Dropped
from plait.domain.values import ItemId
from plait.ports import ItemState
from plait.retrieval.query import nearness
from plait.retrieval.query.analysis import QueryKind
from plait.retrieval.ranking import (
    compacted,
    freshness,
    fusion,
    memory_score,
    query_intent,
    signals,
    silence,
    threads,
    trust,
    verbatim,
)
from plait.retrieval.search_context import Deps, SearchContext


async def score(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Reorder the best by signals of location and name and by all factors; scores stay in [0, 1]. A recall without a
    likely answer is left without candidates."""
    ctx = await _of_agents(ctx, deps)
    query = signals.prepared(ctx.analysis)
    found = [(id_, signals.signals(ctx.places[id_], query)) for id_ in ctx.order]
    fused = [ctx.fused[id_] for id_ in ctx.order]
    values = [
        signal.apply(score) * _factor(ctx, id_)
        for score, (id_, signal) in zip(fused, found, strict=True)
    ]
    # Scaled so that the best keeps its fused score, which is the confidence in it.
    best, top = max(values, default=0.0), max(fused, default=0.0)
    scale = top / best if best > top > 0.0 else 1.0
    # A stable sort over the order of fusion, which is deterministic.
    ranked = sorted(zip(values, found, strict=True), key=lambda entry: -entry[0])
    explained: dict[ItemId, dict[str, float]] = {}
    if ctx.query.explain:
        explained = {id_: signal.explained() for _, (id_, signal) in ranked}
    scores = {id_: min(1.0, value * scale) for value, (id_, _) in ranked}
    scores = compacted.behind_summaries(scores, ctx.item_states)
    ctx = replace(ctx, fused=scores, signals=explained, order=list(scores))
    return await _silenced(ctx, deps) if ctx.options is not None else ctx


def _factor(ctx: SearchContext, id_: ItemId) -> float:
    return prod(factors.get(id_, 1.0) for factors in ctx.factors.values())


async def _of_agents(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`ctx` with the factors of agents' items; unchanged where there are none, as in a search for code."""
    if not any(map(memory_score.is_agents, ctx.places.values())):
        return ctx
    theirs = {i: p for i in ctx.order if memory_score.is_agents(p := ctx.places[i])}
    if not theirs:
        return ctx
    # Turns that short turns reply to are included: their source matters.
    ids = list(dict.fromkeys((*theirs, *ctx.before.values())))
    states, said = await all_of(
        deps.store.item_states(ctx.at, ids), _verbatim(ctx, deps, list(theirs))
    )
    newest = memory_score.asks_for_newest(ctx.analysis.text)
    blend = memory_score.Blend.of(deps.recall, newest=newest)
    similarity: Mapping[ItemId, float] = {}
    if ctx.analysis.kind is QueryKind.PLAIN:
        unite = fusion.rrf if ctx.fusion == "rrf" else fusion.minmax
        similarity = memory_score.similarity(ctx.rankings, ctx.strategy.weights, unite, theirs)
    factors: Mapping[str, Mapping[ItemId, float]] = {
        "said": similarity,
        "memory": memory_score.age_and_importance(theirs, blend),
        "turn": threads.turn_factors(theirs),
        "wanted": query_intent.intent_factors(
            ctx.analysis.text, theirs, _external(states), ctx.first_turns
        ),
        "freshness": freshness.freshness_factors(theirs, states),
        "trust": trust.trust_factors(theirs, states),
        "compacted": compacted.compaction_factors(states),
        "verbatim": said,
        "time": nearness.in_time(theirs, ctx.anchors.span),
        "scope": nearness.in_scope(theirs, _session(ctx), ctx.query.where.agent_id),
    }
    return replace(
        ctx,
        item_states={**ctx.item_states, **states},
        factors={**ctx.factors, **{name: by_item for name, by_item in factors.items() if by_item}},
        reasons=_reasons(ctx, states),
    )


async def _verbatim(
    ctx: SearchContext, deps: Deps, ids: Sequence[ItemId]
) -> Mapping[ItemId, float]:
    """Factors of the texts that contain a pasted passage; without a passage nothing is read."""
    passage = verbatim.passage(ctx.analysis.text)
    if not passage:
        return {}
    items = await deps.store.fetch(ctx.at, ids)
    texts = {id_: item.content for id_, item in items.items()}
    chars = sum(map(len, texts.values()))
    return await off_loop(chars, verbatim.passage_factors, passage, texts)


def _external(states: Mapping[ItemId, ItemState]) -> frozenset[ItemId]:
    return frozenset(id_ for id_, state in states.items() if state.external)


def _session(ctx: SearchContext) -> str:
    return (ctx.options.session_key if ctx.options else "") or ctx.query.where.session_key


def _reasons(
    ctx: SearchContext, states: Mapping[ItemId, ItemState]
) -> Mapping[ItemId, tuple[str, ...]]:
    reasons = dict(ctx.reasons)
    for id_, state in states.items():
        if id_ not in ctx.places:
            continue
        for why in (freshness.reason(ctx.places[id_], state), compacted.reason(state)):
            if why:  # a context shows the first reason
                reasons[id_] = (why, *reasons.get(id_, ()))
    return reasons


async def _silenced(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`ctx` without candidates if none is likely to be an answer."""
    support = await silence.support(ctx, deps)
    bar = deps.recall.silence
    if support is None or support >= bar:
        return ctx
    dropped = dict(ctx.dropped)
    for rank, id_ in enumerate(ctx.order, start=1):
        dropped[id_] = Dropped("score", "silence", score=support, bar=bar, rank=rank)
    return replace(ctx, order=[], dropped=dropped)
