"""The lexical arms: BM25, quoted phrases, misspelt names, numbers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.gather import all_of
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext, changed
from plait.text.tokenize import split

Ranking = Sequence[Candidate]

# Trigrams are for a misspelt name, not for a page of code: 4 ms a name.
MAX_WORDS_FOR_TRIGRAMS = 4
MAX_TRIGRAM_NAMES = 2
WEIGHTS = DEFAULT.arms


async def fts(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Run `lexical`, `phrase`, `identifiers` and `exact` concurrently."""
    store, view, where, analysis = deps.store, ctx.at, ctx.query.where, ctx.analysis
    k, weights = deps.settings.candidates, ctx.strategy.weights
    arms: dict[str, Coroutine[Any, Any, Ranking]] = {}
    if analysis.terms and weights.get("lexical"):
        arms["lexical"] = _lexical(ctx, deps)
    if analysis.phrases and weights.get("phrase"):
        arms["phrase"] = _best_of(lambda p: store.phrase(view, p, where, k), analysis.phrases)
    short = analysis.words <= MAX_WORDS_FOR_TRIGRAMS
    if analysis.identifiers and short and weights.get("identifiers"):
        names = [name.rpartition(".")[2] for name in analysis.identifiers[:MAX_TRIGRAM_NAMES]]
        arms["identifiers"] = _best_of(lambda n: store.identifiers(view, n, where, k), names)
    theirs = tuple(c for c in where.collections or Collection if c is not Collection.FILES)
    if analysis.exact and theirs and weights.get("exact"):
        arms["exact"] = _exact(ctx, deps, replace(where, collections=theirs))
    found = await all_of(*arms.values())
    return changed(ctx, rankings={**ctx.rankings, **dict(zip(arms, found, strict=True))})


async def _lexical(ctx: SearchContext, deps: Deps) -> Ranking:
    """BM25 over the query's terms, the weighted terms of `rewrite`, and the query joined to a name."""
    k, terms = deps.settings.candidates, ctx.analysis.terms
    more = {**_joined(ctx.analysis.joined), **ctx.rewrite.terms}
    if not more and not ctx.analysis.weights:
        return await deps.store.lexical(ctx.at, terms, ctx.query.where, k)
    further = {term: weight for term, weight in more.items() if term not in terms}
    all_terms = (*terms, *further)
    return await deps.store.lexical(
        ctx.at, all_terms, ctx.query.where, k, {**ctx.analysis.weights, **further}
    )


def _joined(names: Sequence[str]) -> dict[str, float]:
    """Whole names as indexed: `parse_header`, and `parseheader` for parseHeader."""
    written = (name for joined in names for name in (joined, joined.replace("_", "")))
    return {term: WEIGHTS.joined_name for name in written for term in split(name)[:1]}


async def _exact(ctx: SearchContext, deps: Deps, where: Filter) -> Ranking:
    """Agents' items that contain the query's numbers, if few do: a number such as a year is too common."""
    found = await deps.store.lexical(ctx.at, ctx.analysis.exact, where, WEIGHTS.most_exact + 1)
    return found if len(found) <= WEIGHTS.most_exact else []


async def _best_of(
    ask: Callable[[str], Coroutine[Any, Any, Ranking]], names: Sequence[str]
) -> Ranking:
    """Merge rankings of one scale by the best score of each item."""
    best: dict[ItemId, float] = {}
    for ranking in await all_of(*map(ask, names)):
        for candidate in ranking:
            best[candidate.id] = max(candidate.score, best.get(candidate.id, candidate.score))
    return sorted(
        (Candidate(id_, value) for id_, value in best.items()), key=lambda c: (-c.score, c.id.int)
    )
