"""From coarse to fine: what a file says of its symbols, neighbours joined into one piece."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def hierarchical(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Files, then symbols."""
    return ctx
