"""The answer: hits, or a context packed into a budget of tokens."""

from __future__ import annotations

import asyncio

from plait.domain.gather import all_of
from plait.domain.off_loop import off_loop
from plait.domain.values import Hit, Item, ItemId
from plait.retrieval.code_graph.impact import impact
from plait.retrieval.packing import context_block
from plait.retrieval.ranking import fusion
from plait.retrieval.search_context import Deps, SearchContext, changed
from plait.text import token_count


async def format(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Apply the threshold and read the best `k` items; for a recall, pack them into the block."""
    if ctx.options is not None:
        return await _packed(ctx, deps)
    best = [id_ for id_ in ctx.order if ctx.fused[id_] >= ctx.query.min_score][: ctx.k]
    items = await deps.store.fetch(ctx.at, best) if best else {}
    order = [id_ for id_ in best if id_ in items]
    arms = arm_scores(ctx, order)
    hits = [Hit(items[id_], ctx.fused[id_], arms[id_]) for id_ in order]
    return changed(ctx, items=items, order=order, hits=tuple(hits))


async def _packed(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Raises: InvalidInput, for a budget, window or model's name that is out of range."""
    assert ctx.options is not None
    min_score = ctx.options.min_score
    bar = max(ctx.query.min_score, min_score if min_score >= 0.0 else deps.recall.min_score)
    candidates, left_out = context_block.pool(ctx, bar)
    ids = context_block.ids_to_fetch(ctx, candidates)
    ctx, items, _ = await all_of(
        impact(ctx, deps),
        deps.store.fetch(ctx.at, ids) if ids else _nothing(),
        _ready(ctx.options.tokenizer),
    )
    # Counting, comparing and formatting a few memories of 1 MB takes a second.
    chars = sum(len(item.content) for item in items.values())
    arms = arm_scores(ctx, candidates)
    return await off_loop(
        chars, context_block.block, ctx, candidates, left_out, items, arms, deps.recall
    )


async def _ready(model: str) -> None:
    """Load the tokenizer's tables off the event loop: the first count of a process takes 0.4 s."""
    counter = token_count.counter(model)
    if not token_count.is_warm(counter.encoding):
        await asyncio.to_thread(token_count.warm, model)


async def _nothing() -> dict[ItemId, Item]:
    return {}


def arm_scores(ctx: SearchContext, order: list[ItemId]) -> dict[ItemId, dict[str, float]]:
    """Each arm's raw score of the items in `order`; with `explain` also `ARM.rank` (from 1), `ARM.scaled`,
    `ARM.weight`, `bonus.NAME` and `factor.NAME`."""
    arms: dict[ItemId, dict[str, float]] = {id_: {} for id_ in order}
    # By number: hashing a UUID costs 0.2 µs, and an arm has 150 candidates.
    by_number = {id_.int: scores for id_, scores in arms.items()}
    for arm, ranking in ctx.rankings.items():
        for candidate in ranking:
            if (scores := by_number.get(candidate.id.int)) is not None:
                scores[arm] = candidate.score
    if ctx.query.explain:
        for id_, more in _explained(ctx, order).items():
            arms[id_] |= more
    return arms


def _explained(ctx: SearchContext, order: list[ItemId]) -> dict[ItemId, dict[str, float]]:
    found = {id_: dict(ctx.signals.get(id_, {})) for id_ in order}
    for stage, factors in ctx.factors.items():
        for id_, factor in factors.items():
            if id_ in found:
                found[id_][f"factor.{stage}"] = factor
    for arm, ranking in ctx.rankings.items():
        if not ranking:
            continue
        for rank, (id_, scaled) in enumerate(fusion.scale(ranking, fusion.floor_of(arm)), start=1):
            if id_ in found:
                found[id_][f"{arm}.rank"] = float(rank)
                found[id_][f"{arm}.scaled"] = scaled
                found[id_][f"{arm}.weight"] = ctx.strategy.weights[arm]
    return found
