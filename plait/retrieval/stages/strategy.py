"""Which arms are asked, and what each weighs."""

from __future__ import annotations

from plait.domain.values import Collection
from plait.retrieval.query import strategy as strategies
from plait.retrieval.search_context import Deps, SearchContext, changed


async def strategy(ctx: SearchContext, deps: Deps) -> SearchContext:
    """By kind of query, and by how sure the places are that it names."""
    found = ctx.rankings.get("anchors", ())
    located = found[0].score if found else 0.0
    coverage = _coverage(ctx)
    return changed(ctx, strategy=strategies.choose(ctx.asked, ctx.anchors, located, coverage))


def _coverage(ctx: SearchContext) -> float:
    """Of the code that is asked for; 1 where none is."""
    collections = ctx.query.where.collections
    chunks = sum(revision.chunks for revision in ctx.at.revisions)
    if not chunks or (collections and Collection.FILES not in collections):
        return 1.0
    return min(1.0, sum(revision.embedded for revision in ctx.at.revisions) / chunks)
