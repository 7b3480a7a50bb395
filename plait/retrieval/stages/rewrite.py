"""What else to ask for than the words of the query."""

from __future__ import annotations

import logging
from dataclasses import replace

from plait.domain.errors import BadSettings, LanguageModelUnavailable
from plait.retrieval.query.analysis import Mode, QueryKind
from plait.retrieval.query.expansion import expanded
from plait.retrieval.query.prompts import Unreadable, read_rewrite, rewrite_prompt
from plait.retrieval.query.skip import transactional
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Degraded, Deps, Rewrite, SearchContext

logger = logging.getLogger(__name__)

WEIGHTS = DEFAULT.expansion
ANSWER_TOKENS = 400
# The most of the deadline that a rewriting may take: the search itself comes after it.
SHARE = 0.4


def rewrites(ctx: SearchContext, deps: Deps) -> bool:
    """Whether `rewrite` has anything to do."""
    return _expands(ctx, deps) or _asks(ctx, deps)


async def rewrite(ctx: SearchContext, deps: Deps) -> SearchContext:
    """In `full`, with a model, what it thinks an answer holds: terms, and a passage (HyDE). Else, where
    `search.expansion` says so, how the repository's names say the query's words."""
    if _asks(ctx, deps):
        ctx = await _by_model(ctx, deps)
    if _expands(ctx, deps) and not ctx.rewrite.terms:
        terms = await expanded(ctx.asked, ctx.at, deps.store)
        if terms:
            ctx = replace(ctx, rewrite=replace(ctx.rewrite, terms=terms, by="identifiers"))
    return ctx


def _expands(ctx: SearchContext, deps: Deps) -> bool:
    """Searches in `fast` are in a hurry, and it gives them next to nothing: see docs/experiments/expansion.md."""
    if deps.settings.expansion == "recall":
        return ctx.options is not None or ctx.query.mode is Mode.FULL
    return deps.settings.expansion == "on"


def _asks(ctx: SearchContext, deps: Deps) -> bool:
    """A query that names code is asked for as it is, and so are diffs and traces: a model would only guess
    at what they already say."""
    return (
        ctx.query.mode is Mode.FULL
        and deps.language is not None
        and deps.language_settings.rewrite
        and not ctx.asked.attached
        and not (ctx.asked.kind is QueryKind.IDENTIFIERS and ctx.asked.words <= 3)
        and not transactional(ctx.asked.text)
    )


async def _by_model(ctx: SearchContext, deps: Deps) -> SearchContext:
    assert deps.language is not None
    system, user = rewrite_prompt(ctx.asked.text)
    try:
        model = await deps.language()
        answer = await model.complete(
            system,
            user,
            max_tokens=ANSWER_TOKENS,
            timeout_s=min(deps.language_settings.timeout_s, SHARE * ctx.deadline.left_s),
        )
        terms, passage = read_rewrite(answer, ctx.asked.terms)
    except (LanguageModelUnavailable, BadSettings) as exc:
        logger.warning("no rewrite", extra={"reason": exc.reason, "error": exc.message})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("rewrite", exc.reason)))
    except Unreadable as exc:
        logger.warning("rewrite unreadable", extra={"cause": str(exc)})
        return replace(ctx, degraded=(*ctx.degraded, Degraded("rewrite", "unreadable")))
    weighed = dict.fromkeys(terms, WEIGHTS.by_model)
    passages = (passage,) if passage else ()
    return replace(ctx, rewrite=Rewrite(weighed, passages, model.model))
