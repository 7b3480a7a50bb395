"""Which arms are asked, and what each weighs."""

from __future__ import annotations

from dataclasses import replace

from plait.retrieval import strategy as strategies
from plait.retrieval.context import Deps, SearchContext


async def strategy(ctx: SearchContext, deps: Deps) -> SearchContext:
    """By kind of query."""
    return replace(ctx, strategy=strategies.choose(ctx.asked, ctx.anchors))
