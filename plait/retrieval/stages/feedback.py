"""What became of earlier recalls of the same items."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def feedback(ctx: SearchContext, deps: Deps) -> SearchContext:
    """A bounded prior."""
    return ctx
