"""Reranking by models. Their code is imported only when a model is configured."""

from __future__ import annotations

from plait.retrieval.search_context import Deps, SearchContext


async def rerank(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Rerank the best by a local cross-encoder; unchanged if none is configured."""
    if deps.reranker is None:
        return ctx
    from plait.retrieval.opinions import reranking

    return await reranking.rerank(ctx, deps)


async def cross_encoder(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Rerank the best by a chat model; unchanged if none is configured."""
    if deps.language is None:
        return ctx
    from plait.retrieval.opinions import judging

    return await judging.judge(ctx, deps)
