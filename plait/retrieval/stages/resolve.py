"""Which revisions an answer is read at, and what of the code its text names."""

from __future__ import annotations

from dataclasses import replace

from plait.retrieval.context import Deps, SearchContext


async def resolve(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fix the revisions that this answer is read at."""
    return replace(ctx, view=await deps.store.view(ctx.query.where))
