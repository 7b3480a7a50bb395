"""Blend a model's scores of the best candidates into their order. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.domain.values import ItemId
from plait.retrieval.search_context import SearchContext


def blend(
    ctx: SearchContext, judged: Mapping[ItemId, float], weight: float, signal: str
) -> SearchContext:
    """`(1 - weight) · score + weight · judged` for the judged; the others keep theirs. Stable, in [0, 1]."""
    fused = dict(ctx.fused)
    signals = dict(ctx.signals)
    for id_, score in judged.items():
        fused[id_] = min(1.0, max(0.0, (1.0 - weight) * fused[id_] + weight * score))
        if ctx.traced:
            signals[id_] = {**signals.get(id_, {}), signal: score}
    order = sorted(ctx.order, key=lambda id_: -fused[id_])
    return replace(ctx, fused=fused, order=order, signals=signals)


def scaled(scores: Sequence[float], top: float) -> list[float]:
    """`scores` over [0, `top`], for models whose scores compare only with each other; all `top` when
    equal."""
    low, high = min(scores), max(scores)
    if high <= low:
        return [top] * len(scores)
    return [top * (score - low) / (high - low) for score in scores]
