"""What may not be in the answer."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def filter(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Take out what this caller may not or need not see."""
    return ctx
