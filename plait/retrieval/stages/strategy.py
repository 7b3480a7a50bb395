"""Choose the weights of the arms."""

from __future__ import annotations

from plait.domain.values import Collection
from plait.retrieval.query import strategy as strategies
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext, changed

WEIGHTS = DEFAULT.arms


async def strategy(ctx: SearchContext, deps: Deps) -> SearchContext:
    """By kind of query, and by the confidence of the code locations that it names."""
    found = ctx.rankings.get("anchors", ())
    located = found[0].score if found else 0.0
    coverage = _coverage(ctx, deps)
    least = WEIGHTS.least_semantic if deps.tiers == "model" else WEIGHTS.semantic_by_table
    chosen = strategies.choose(ctx.analysis, ctx.anchors, located, coverage, least)
    return changed(ctx, strategy=chosen)


def _coverage(ctx: SearchContext, deps: Deps) -> float:
    """The share of chunks with the model's vectors; 1 if no code is searched."""
    collections = ctx.query.where.collections
    chunks = sum(revision.chunks for revision in ctx.at.revisions)
    if not chunks or (collections and Collection.FILES not in collections):
        return 1.0
    if deps.tiers == "static":
        return 0.0
    return min(1.0, sum(revision.embedded for revision in ctx.at.revisions) / chunks)
