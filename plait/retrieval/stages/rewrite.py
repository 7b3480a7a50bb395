"""What else to ask for than the words of the query."""

from __future__ import annotations

from dataclasses import replace

from plait.retrieval.query.analysis import Mode, QueryKind
from plait.retrieval.query.expansion import expanded
from plait.retrieval.query.skip import transactional
from plait.retrieval.search_context import Deps, SearchContext


def rewrites(ctx: SearchContext, deps: Deps) -> bool:
    """Whether `rewrite` has anything to do."""
    return _expands(ctx, deps) or _asks(ctx, deps)


async def rewrite(ctx: SearchContext, deps: Deps) -> SearchContext:
    """In `full`, with a model, what it thinks an answer holds: terms, and a passage (HyDE). Else, where
    `search.expansion` says so, how the repository's names say the query's words."""
    if _asks(ctx, deps):
        # Loaded where a model is configured, not before.
        from plait.retrieval.opinions import rewriting

        ctx = await rewriting.rewrite(ctx, deps)
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
