"""The full score: place, name, age, importance, priors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from plait.domain.values import ItemId
from plait.retrieval import signals
from plait.retrieval.context import Deps, SearchContext


async def score(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Reorder the best by what their place and name say; scores stay in [0, 1]."""
    query = signals.wanted(ctx.asked)
    found = [(id_, signals.signals(ctx.places[id_], query)) for id_ in ctx.order]
    values = [said.apply(ctx.fused[id_]) * _factor(ctx, id_) for id_, said in found]
    # Relative to the best, whose score says how sure fusion was of it.
    best = max(values, default=0.0)
    top = max((ctx.fused[id_] for id_ in ctx.order), default=0.0)
    scale = top / best if best > top > 0.0 else 1.0
    # A stable sort over the order of fusion, which is deterministic.
    ranked = sorted(zip(values, found, strict=True), key=lambda entry: -entry[0])
    told: dict[ItemId, dict[str, float]] = {}
    if ctx.query.explain:
        told = {id_: said.told() for _, (id_, said) in ranked}
    scores = {id_: min(1.0, value * scale) for value, (id_, _) in ranked}
    return replace(ctx, fused=scores, signals=told, order=list(scores))


def _factor(ctx: SearchContext, id_: ItemId) -> float:
    return prod(said.get(id_, 1.0) for said in ctx.factors.values())
