"""What tags say."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def tags(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Items that carry what the query names."""
    return ctx
