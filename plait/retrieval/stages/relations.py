"""The arm that follows the graph: what is near the best seeds and the anchors."""

from __future__ import annotations

from plait.retrieval.context import Deps, SearchContext


async def relations(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Candidates by personalised PageRank."""
    return ctx
