"""What else to ask for than the words of the query."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def rewrite(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Further terms and passages."""
    return ctx
