"""What a chat model thinks that an answer holds: terms, and a passage."""

from __future__ import annotations

import logging
from dataclasses import replace

from plait.domain.errors import BadSettings, LanguageModelUnavailable
from plait.retrieval.opinions.prompts import Unreadable, read_rewrite, rewrite_prompt
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, Rewrite, SearchContext

logger = logging.getLogger(__name__)

WEIGHTS = DEFAULT.expansion
ANSWER_TOKENS = 400
# The most of the deadline that a rewriting may take: the search itself comes after it.
SHARE = 0.4


async def rewrite(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`ctx` with the terms and the passage that the chat model expects of an answer (HyDE)."""
    assert deps.language is not None
    system, user = rewrite_prompt(ctx.analysis.text)
    try:
        model = await deps.language()
        answer = await model.complete(
            system,
            user,
            max_tokens=ANSWER_TOKENS,
            timeout_s=min(deps.language_settings.timeout_s, SHARE * ctx.deadline.left_s),
        )
        terms, passage = read_rewrite(answer, ctx.analysis.terms)
    except (LanguageModelUnavailable, BadSettings) as exc:
        logger.warning("no rewrite", extra={"reason": exc.reason, "error": exc.message})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("rewrite", exc.reason)))
    except Unreadable as exc:
        logger.warning("rewrite unreadable", extra={"cause": str(exc)})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("rewrite", "unreadable")))
    weighed = dict.fromkeys(terms, WEIGHTS.by_model)
    passages = (passage,) if passage else ()
    return replace(ctx, rewrite=Rewrite(weighed, passages, model.model))
