"""The semantic arm: cosine neighbours of the query, by the embedding model and by the static table."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from plait.domain.errors import (
    BadModelFile,
    BadSettings,
    EmbeddingModelMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
)
from plait.domain.values import Candidate, Collection
from plait.ports import EmbeddingProvider
from plait.retrieval.ranking.tiers import united
from plait.retrieval.search_context import Degraded, Deps, SearchContext, changed
from plait.text.tokenize import query_terms

logger = logging.getLogger(__name__)


async def semantic(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Raises: EmbeddingModelMismatch; other errors of the provider only disable the model's part of this arm."""
    if not ctx.strategy.weights.get("semantic"):
        return ctx
    by_table = await _by_table(ctx, deps, deps.settings.candidates)
    if by_table is None:
        ctx, by_table = _without(ctx, "too_many_chunks"), ()
    if not ctx.at.model and not by_table:
        return _without(ctx, "no_vectors")
    if _reads_code(ctx) and deps.tiers != "static" and _lacks_vectors(ctx):
        ctx = _without(ctx, "coverage")
    vector = None
    try:
        found, vector = await _with_model(ctx, deps, by_table, deps.settings.candidates)
    except (EmbeddingUnavailable, EmbeddingRefused, BadModelFile, BadSettings) as exc:
        logger.warning("search without vectors", extra={"reason": exc.reason, "error": exc.message})
        ctx, found = _without(ctx, exc.reason), by_table
    if not found:
        return ctx
    return changed(ctx, rankings={**ctx.rankings, "semantic": found}, query_vector=vector)


async def nearest(ctx: SearchContext, deps: Deps, k: int) -> Sequence[Candidate]:
    """The arm's `k` best. Raises: as `semantic`, and what the provider raises."""
    found, _ = await _with_model(ctx, deps, await _by_table(ctx, deps, k) or (), k)
    return found


async def _by_table(ctx: SearchContext, deps: Deps, k: int) -> Sequence[Candidate] | None:
    """Code by the static table, as long as some of it lacks the model's vectors; nothing for a caller's own vector.
    None: there is too much for the table."""
    wanted = deps.tiers == "static" or (deps.tiers == "both" and _lacks_vectors(ctx))
    if not wanted or not _reads_code(ctx) or ctx.vector is not None:
        return ()
    counts = Counter(query_terms(ctx.analysis.text))
    return await deps.store.alike(ctx.at, counts, ctx.query.where, k)


async def _with_model(
    ctx: SearchContext, deps: Deps, by_table: Sequence[Candidate], k: int
) -> tuple[Sequence[Candidate], npt.NDArray[np.float32] | None]:
    """`by_table` and the model's nearest as one ranking, and the query's vector. The model is not asked where nothing
    could be compared."""
    view, where = ctx.at, ctx.query.where
    collections = where.collections or tuple(Collection)
    if deps.tiers == "static" or not any(r.embedded for r in view.revisions):
        collections = tuple(c for c in collections if c is not Collection.FILES)
    if not view.model or not collections:
        return by_table, None
    vector = ctx.vector if ctx.vector is not None else await _of_text(ctx, deps)
    found = await deps.store.nearest(view, vector, replace(where, collections=collections), k)
    if not by_table:
        return found, vector
    known = {c.id for c in found}
    others = [c.id for c in by_table if c.id not in known]
    also = await deps.store.cosines(view, vector, others) if others else {}
    return united(found, by_table, also, k), vector


def _reads_code(ctx: SearchContext) -> bool:
    collections = ctx.query.where.collections
    return not collections or Collection.FILES in collections


def _lacks_vectors(ctx: SearchContext) -> bool:
    return any(r.embedded < r.chunks for r in ctx.at.revisions)


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
