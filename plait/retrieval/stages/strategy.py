"""Which arms are asked, and what each weighs."""

from __future__ import annotations

from dataclasses import replace

from plait.retrieval import strategy as strategies
from plait.retrieval.context import Deps, SearchContext


async def strategy(ctx: SearchContext, deps: Deps) -> SearchContext:
    """By kind of query, and by how sure the places are that it names."""
    found = ctx.rankings.get("anchors", ())
    located = found[0].score if found else 0.0
    return replace(ctx, strategy=strategies.choose(ctx.asked, ctx.anchors, located))
