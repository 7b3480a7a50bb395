"""Remove items that may not be in the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from plait.domain.recall import Dropped
from plait.domain.values import ItemId
from plait.retrieval.search_context import Deps, SearchContext


async def filter(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Remove items that this session was shown within the cool-down: they are in its window already."""
    if ctx.options is None or not ctx.options.session_key or deps.receipts is None:
        return ctx
    cooldown_s = ctx.options.cooldown_s
    if cooldown_s < 0.0:
        cooldown_s = deps.recall.cooldown_s
    if cooldown_s == 0.0 or not ctx.order:
        return ctx
    repos = [revision.repo for revision in ctx.at.revisions]
    # By the current time even if the answer is as of an earlier one: the window is the present one.
    since = deps.now() - timedelta(seconds=cooldown_s)
    seen = await deps.receipts.shown(ctx.at.tenant, repos, ctx.options.session_key, since)
    shown = frozenset(id_ for id_ in ctx.order if id_ in seen)
    return _without(ctx, shown) if shown else ctx


def _without(ctx: SearchContext, shown: frozenset[ItemId]) -> SearchContext:
    dropped = dict(ctx.dropped)
    remaining: Sequence[ItemId] = [id_ for id_ in ctx.order if id_ not in shown]
    for rank, id_ in enumerate(ctx.order, start=1):
        if id_ in shown:
            dropped[id_] = Dropped("filter", "cooldown", score=ctx.fused.get(id_, 0.0), rank=rank)
    return replace(ctx, order=remaining, dropped=dropped, shown=ctx.shown | shown)
