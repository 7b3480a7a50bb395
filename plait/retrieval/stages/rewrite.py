"""Query rewriting: further terms and passages."""

from __future__ import annotations

from dataclasses import replace

from plait.retrieval.query.analysis import Mode, QueryKind
from plait.retrieval.query.expansion import expanded
from plait.retrieval.query.skip import transactional
from plait.retrieval.search_context import Deps, SearchContext


def rewrites(ctx: SearchContext, deps: Deps) -> bool:
    """Whether `rewrite` applies."""
    return _expands(ctx, deps) or _asks_model(ctx, deps)


async def rewrite(ctx: SearchContext, deps: Deps) -> SearchContext:
    """In `full` with a model: terms and a passage that an answer may contain (HyDE). Else, if `search.expansion` is
    on: related terms from the repository's names."""
    if _asks_model(ctx, deps):
        # Imported only when a model is configured.
        from plait.retrieval.opinions import rewriting

        ctx = await rewriting.rewrite(ctx, deps)
    if _expands(ctx, deps) and not ctx.rewrite.terms:
        terms = await expanded(ctx.analysis, ctx.at, deps.store)
        if terms:
            ctx = replace(ctx, rewrite=replace(ctx.rewrite, terms=terms, by="identifiers"))
    return ctx


def _expands(ctx: SearchContext, deps: Deps) -> bool:
    """Not for searches in `fast`, which gain next to nothing for its time: see docs/experiments/expansion.md."""
    if deps.settings.expansion == "recall":
        return ctx.options is not None or ctx.query.mode is Mode.FULL
    return deps.settings.expansion == "on"


def _asks_model(ctx: SearchContext, deps: Deps) -> bool:
    """Not for queries that name code, nor for diffs and traces: a model could only guess what they state already."""
    return (
        ctx.query.mode is Mode.FULL
        and deps.language is not None
        and deps.language_settings.rewrite
        and not ctx.analysis.attached
        and not (ctx.analysis.kind is QueryKind.IDENTIFIERS and ctx.analysis.words <= 3)
        and not transactional(ctx.analysis.text)
    )
