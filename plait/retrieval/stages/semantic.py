"""The semantic arm: cosine neighbours of the query's vector."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from plait.domain.errors import (
    BadModelFile,
    BadSettings,
    EmbeddingModelMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
)
from plait.domain.values import Collection
from plait.ports import EmbeddingProvider
from plait.retrieval.search_context import Degraded, Deps, SearchContext, changed

logger = logging.getLogger(__name__)


async def semantic(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Raises: EmbeddingModelMismatch; other errors of the provider only disable this arm."""
    view = ctx.at
    if not ctx.strategy.weights.get("semantic"):
        return ctx
    if not view.model:
        return _without(ctx, "no_vectors")
    if _reads_code(ctx) and any(r.embedded < r.chunks for r in view.revisions):
        ctx = _without(ctx, "coverage")
    try:
        vector = ctx.vector if ctx.vector is not None else await _of_text(ctx, deps)
    except (EmbeddingUnavailable, EmbeddingRefused, BadModelFile, BadSettings) as exc:
        logger.warning("search without vectors", extra={"reason": exc.reason, "error": exc.message})
        return _without(ctx, exc.reason)
    found = await deps.store.nearest(view, vector, ctx.query.where, deps.settings.candidates)
    return changed(ctx, rankings={**ctx.rankings, "semantic": found})


def _reads_code(ctx: SearchContext) -> bool:
    collections = ctx.query.where.collections
    return not collections or Collection.FILES in collections


async def _of_text(ctx: SearchContext, deps: Deps) -> npt.NDArray[np.float32]:
    """Raises: EmbeddingModelMismatch, and what the provider raises."""
    provider = await deps.provider()
    if (provider.model, provider.dim) != (ctx.at.model, ctx.at.dim):
        raise EmbeddingModelMismatch(ctx.at.model, ctx.at.dim, provider.model, provider.dim)
    return await _vector(ctx, provider)


async def _vector(ctx: SearchContext, provider: EmbeddingProvider) -> npt.NDArray[np.float32]:
    """The query's unit vector, or the mean of it and of its passages' as a unit vector: Gao et al., "Precise
    Zero-Shot Dense Retrieval without Relevance Labels" (HyDE), ACL 2023, eq. 8 with one vote each."""
    query = await provider.embed_query(ctx.analysis.text)
    if not ctx.rewrite.passages:
        return query
    passages = await provider.embed_documents(ctx.rewrite.passages)
    mean = np.vstack([query, passages]).mean(axis=0)
    norm = float(np.linalg.norm(mean))
    return (mean / norm).astype(np.float32) if norm > 0.0 else query


def _without(ctx: SearchContext, cause: str) -> SearchContext:
    return changed(ctx, degraded=(*ctx.degraded, Degraded("semantic", cause)))
