"""A second opinion by a local model."""

from __future__ import annotations

import logging
from dataclasses import replace

from plait.domain.errors import BadModelFile, BadSettings, LanguageModelUnavailable
from plait.retrieval.opinions.blending import blend, scaled
from plait.retrieval.opinions.prompts import place
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, SearchContext

logger = logging.getLogger(__name__)

WEIGHTS = DEFAULT.second_opinions
# Of what is left of the deadline, kept back for packing.
RESERVE_SHARE = 0.3


async def rerank(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Reorder the best by a cross-encoder, within `rerank.timeout_s`: as many as it reads by then, from the
    best down. Its scores compare only with each other, so they are scaled to the best score there is."""
    settings = deps.rerank_settings
    head = list(ctx.order[: settings.max_candidates])
    if deps.reranker is None or len(head) < 2:
        return ctx
    timeout_s = min(settings.timeout_s, (1.0 - RESERVE_SHARE) * ctx.deadline.left_s)
    items = await deps.store.fetch(ctx.at, head)
    head = [id_ for id_ in head if id_ in items]
    texts = [f"{place(items[id_])}\n{items[id_].content}" for id_ in head]
    try:
        reranker = await deps.reranker()
        scores = await reranker.score(ctx.analysis.text, texts, timeout_s=timeout_s)
    except (LanguageModelUnavailable, BadModelFile, BadSettings) as exc:
        logger.warning("no rerank", extra={"reason": exc.reason, "error": exc.message})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("rerank", exc.reason)))
    if len(scores) < len(head):
        ctx = replace(ctx, degraded=(*ctx.degraded, Degraded("rerank", "deadline")))
    if len(scores) < 2:
        return ctx
    top = max(ctx.fused[id_] for id_ in head)
    judged = dict(zip(head, scaled(scores, top), strict=False))
    return blend(ctx, judged, WEIGHTS.local_model, "rerank")
