"""The arms that compare words: BM25, quoted phrases, names typed from memory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.retrieval.gather import all_of
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext, changed
from plait.retrieval.stages.fetch import placed
from plait.text.tokenize import split

Ranking = Sequence[Candidate]

# Trigrams are for a name typed from memory, not for a page of code: 4 ms a name.
MAX_WORDS_FOR_TRIGRAMS = 4
MAX_TRIGRAM_NAMES = 2
WEIGHTS = DEFAULT.arms


async def fts(ctx: SearchContext, deps: Deps) -> SearchContext:
    """`lexical`, `phrase`, `identifiers` and `exact`, side by side."""
    store, view, where, asked = deps.store, ctx.at, ctx.query.where, ctx.asked
    k, weights = deps.settings.candidates, ctx.strategy.weights
    arms: dict[str, Coroutine[Any, Any, Ranking]] = {}
    if asked.terms and weights.get("lexical"):
        arms["lexical"] = _lexical(ctx, deps)
    if asked.phrases and weights.get("phrase"):
        arms["phrase"] = _best_of(lambda p: store.phrase(view, p, where, k), asked.phrases)
    short = asked.words <= MAX_WORDS_FOR_TRIGRAMS
    if asked.identifiers and short and weights.get("identifiers"):
        names = [name.rpartition(".")[2] for name in asked.identifiers[:MAX_TRIGRAM_NAMES]]
        arms["identifiers"] = _best_of(lambda n: store.identifiers(view, n, where, k), names)
    theirs = tuple(c for c in where.collections or Collection if c is not Collection.FILES)
    if asked.exact and theirs and weights.get("exact"):
        arms["exact"] = _exact(ctx, deps, replace(where, collections=theirs))
    found = await all_of(*arms.values())
    # The nearest vectors take longer: meanwhile the store reads what `fetch` will ask it for. An item that
    # words alone found, and not among so many first, is none of the best of all arms.
    best = [c.id for ranking in found for c in ranking[: placed(ctx)]]
    if best:
        await store.places(view, list(dict.fromkeys(best)))
    return changed(ctx, rankings={**ctx.rankings, **dict(zip(arms, found, strict=True))})


async def _lexical(ctx: SearchContext, deps: Deps) -> Ranking:
    """The query's terms, those that `rewrite` found with the weights it gave them, and the query as a name."""
    k, terms = deps.settings.candidates, ctx.asked.terms
    more = {**_joined(ctx.asked.joined), **ctx.rewrite.terms}
    if not more and not ctx.asked.weights:
        return await deps.store.lexical(ctx.at, terms, ctx.query.where, k)
    further = {term: weight for term, weight in more.items() if term not in terms}
    wanted = (*terms, *further)
    return await deps.store.lexical(
        ctx.at, wanted, ctx.query.where, k, {**ctx.asked.weights, **further}
    )


def _joined(names: Sequence[str]) -> dict[str, float]:
    """Whole names as they stand in the index: `parse_header`, and `parseheader` for parseHeader."""
    written = (name for joined in names for name in (joined, joined.replace("_", "")))
    return {term: WEIGHTS.joined_name for name in written for term in split(name)[:1]}


async def _exact(ctx: SearchContext, deps: Deps, where: Filter) -> Ranking:
    """What agents wrote with the query's numbers in it, where few items have them: a year tells nothing."""
    found = await deps.store.lexical(ctx.at, ctx.asked.exact, where, WEIGHTS.most_exact + 1)
    return found if len(found) <= WEIGHTS.most_exact else []


async def _best_of(
    ask: Callable[[str], Coroutine[Any, Any, Ranking]], names: Sequence[str]
) -> Ranking:
    """One ranking from several of one scale: an item's best score counts."""
    best: dict[ItemId, float] = {}
    for ranking in await all_of(*map(ask, names)):
        for candidate in ranking:
            best[candidate.id] = max(candidate.score, best.get(candidate.id, candidate.score))
    return sorted(
        (Candidate(id_, value) for id_, value in best.items()), key=lambda c: (-c.score, c.id.int)
    )
