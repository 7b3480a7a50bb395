"""Second opinions on the best candidates. What asks the models is loaded when one is configured, not before."""

from __future__ import annotations

from plait.retrieval.search_context import Deps, SearchContext


async def rerank(ctx: SearchContext, deps: Deps) -> SearchContext:
    """The best reordered by a local cross-encoder; `ctx` where none is configured."""
    if deps.reranker is None:
        return ctx
    from plait.retrieval.opinions import reranking

    return await reranking.rerank(ctx, deps)


async def cross_encoder(ctx: SearchContext, deps: Deps) -> SearchContext:
    """The best reordered by a chat model; `ctx` where none is configured."""
    if deps.language is None:
        return ctx
    from plait.retrieval.opinions import judging

    return await judging.judge(ctx, deps)
