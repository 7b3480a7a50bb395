"""Rerank the best candidates by a chat model."""

from __future__ import annotations

import logging
from dataclasses import replace

from plait.domain.errors import BadSettings, LanguageModelUnavailable
from plait.retrieval.opinions.blending import blend
from plait.retrieval.opinions.prompts import Unreadable, judge_prompt, read_scores
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, SearchContext

logger = logging.getLogger(__name__)

WEIGHTS = DEFAULT.second_opinions
TOKENS_AN_ITEM = 16  # of the answer: `{"n": 12, "score": 7}, `
# Share of the remaining time reserved for packing.
RESERVE_SHARE = 0.2


async def judge(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Reorder the best `language.max_candidates` by one prompt that contains them all, within `language.timeout_s`. An
    unreadable answer leaves the order unchanged and is named in `degraded`."""
    settings = deps.language_settings
    head = list(ctx.order[: settings.max_candidates])
    if deps.language is None or len(head) < 2:
        return ctx
    items = await deps.store.fetch(ctx.at, head)
    head = [id_ for id_ in head if id_ in items]
    system, user = judge_prompt(ctx.analysis.text, [items[id_] for id_ in head])
    try:
        model = await deps.language()
        answer = await model.complete(
            system,
            user,
            max_tokens=200 + TOKENS_AN_ITEM * len(head),
            timeout_s=min(settings.timeout_s, (1.0 - RESERVE_SHARE) * ctx.deadline.left_s),
        )
        scores = read_scores(answer, len(head))
    except (LanguageModelUnavailable, BadSettings) as exc:
        logger.warning("no cross-encoder", extra={"reason": exc.reason, "error": exc.message})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("cross_encoder", exc.reason)))
    except Unreadable as exc:
        logger.warning("cross-encoder's answer unreadable", extra={"cause": str(exc)})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("cross_encoder", "unreadable")))
    judged = {head[n]: score for n, score in scores.items()}
    return blend(ctx, judged, WEIGHTS.chat_model, "cross_encoder")
