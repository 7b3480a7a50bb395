"""The stages of a search, in the order of `STAGES`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.errors import (
    BadModelFile,
    BadSettings,
    DeadlineExceeded,
    EmbeddingModelMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
)
from plait.domain.values import Candidate, Hit, ItemId
from plait.ports import View
from plait.retrieval import fusion, signals
from plait.retrieval.context import Degraded, Deps, SearchContext, Stage
from plait.retrieval.query import QueryKind

logger = logging.getLogger(__name__)

Ranking = Sequence[Candidate]
Arm = Coroutine[Any, Any, Ranking | Degraded]

# Chosen on benchmarks/localisation.py, see docs/retrieval.md.
SEMANTIC_WEIGHT = {QueryKind.IDENTIFIERS: 0.4, QueryKind.PLAIN: 0.6}
# Weights beside lexical + semantic = 1. An arm that found nothing weighs nothing.
PHRASE_WEIGHT = 0.5
IDENTIFIERS_WEIGHT = 0.5
# Trigrams are for a name typed from memory, not for a page of code: 4 ms a name.
MAX_WORDS_FOR_TRIGRAMS = 4
MAX_TRIGRAM_NAMES = 2
# So many of the best by fusion are scored by place and name. Tests and texts crowd the top of a
# fused ranking: with 50 function recall@10 was 3 points lower; 120 adds 0.1 and 0.6 ms, 240 nothing.
PLACED = 80
# Kept back for fetching and ranking when the arms use up the deadline.
RESERVE_SHARE, RESERVE_MAX_S = 0.2, 0.05


async def resolve(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Fix the revisions that this answer is read at."""
    return replace(ctx, view=await deps.store.view(ctx.query.where))


async def recall(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Ask every arm that has something to say, side by side; shed what is late or down."""
    view = ctx.at
    arms, missing = _arms(ctx, deps, view)
    reserve = min(ctx.deadline.left_s * RESERVE_SHARE, RESERVE_MAX_S)
    rankings, late = await _gather(arms, ctx.deadline.left_s - reserve)
    missing += late
    if arms and not rankings and all(arm.cause == "deadline" for arm in late):
        raise DeadlineExceeded("the search", ctx.deadline.limit_s)
    semantic = SEMANTIC_WEIGHT[ctx.asked.kind]
    weights = {
        "semantic": semantic,
        "lexical": 1.0 - semantic,
        "phrase": PHRASE_WEIGHT,
        "identifiers": IDENTIFIERS_WEIGHT,
    }
    return replace(ctx, rankings=rankings, weights=weights, degraded=(*ctx.degraded, *missing))


async def fuse(ctx: SearchContext, deps: Deps) -> SearchContext:
    """One score an item from all arms: united first, so that any arm alone can bring an item in."""
    unite = fusion.rrf if ctx.fusion == "rrf" else fusion.minmax
    fused = unite(ctx.rankings, ctx.weights)
    return replace(ctx, fused=fused, order=fusion.order(fused, ctx.rankings))


async def score(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Reorder the best by what their place and name say; scores stay in [0, 1]."""
    head = ctx.order[: max(PLACED, 2 * ctx.k)]
    places = await deps.store.places(ctx.at, head) if head else {}
    query = signals.wanted(ctx.asked)
    found = [(id_, place, signals.signals(place, query)) for id_, place in places.items()]
    values = [said.apply(ctx.fused[id_]) for id_, _, said in found]
    # Relative to the best, whose score says how sure fusion was of it.
    best = max(values, default=0.0)
    top = max((ctx.fused[id_] for id_ in head[:1]), default=0.0)
    scale = top / best if best > top > 0.0 else 1.0
    # A stable sort over the order of fusion, which is deterministic.
    ranked = sorted(zip(values, found, strict=True), key=lambda entry: -entry[0])
    told: dict[ItemId, dict[str, float]] = {}
    if ctx.query.explain:
        told = {id_: said.told() for _, (id_, _, said) in ranked}
    scores = {id_: min(1.0, value * scale) for value, (id_, _, _) in ranked}
    return replace(ctx, fused=scores, places=places, signals=told, order=list(scores))


async def fetch(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Threshold, and the items behind the best k."""
    kept = [id_ for id_ in ctx.order if ctx.fused[id_] >= ctx.query.min_score][: ctx.k]
    items = await deps.store.fetch(ctx.at, kept) if kept else {}
    return replace(ctx, items=items, order=[id_ for id_ in kept if id_ in items])


async def form(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Hits with what each arm said of them."""
    arms: dict[ItemId, dict[str, float]] = {id_: {} for id_ in ctx.order}
    for arm, ranking in ctx.rankings.items():
        for candidate in ranking:
            if (told := arms.get(candidate.id)) is not None:
                told[arm] = candidate.score
    if ctx.query.explain:
        for id_, told in _explained(ctx).items():
            arms[id_] |= told
    hits = [Hit(ctx.items[id_], ctx.fused[id_], arms[id_]) for id_ in ctx.order]
    return replace(ctx, hits=tuple(hits))


STAGES: tuple[Stage, ...] = (
    Stage(resolve),  # which revisions
    Stage(recall),  # candidates from every arm, side by side
    Stage(fuse),  # one ranking from many
    Stage(score),  # place and name
    Stage(fetch),  # the best k, whole
    Stage(form),
)


def _arms(ctx: SearchContext, deps: Deps, view: View) -> tuple[dict[str, Arm], list[Degraded]]:
    store, where, k, asked = deps.store, ctx.query.where, deps.settings.candidates, ctx.asked
    arms: dict[str, Arm] = {}
    missing = []
    if view.model:
        arms["semantic"] = _semantic(ctx, deps, view)
        if any(revision.embedded < revision.chunks for revision in view.revisions):
            missing.append(Degraded("semantic", "coverage"))
    else:
        missing.append(Degraded("semantic", "no_vectors"))
    if asked.terms:
        arms["lexical"] = store.lexical(view, asked.terms, where, k)
    if asked.phrases:
        arms["phrase"] = _best_of(lambda p: store.phrase(view, p, where, k), asked.phrases)
    if asked.identifiers and asked.words <= MAX_WORDS_FOR_TRIGRAMS:
        names = [name.rpartition(".")[2] for name in asked.identifiers[:MAX_TRIGRAM_NAMES]]
        arms["identifiers"] = _best_of(lambda n: store.identifiers(view, n, where, k), names)
    return arms, missing


async def _semantic(ctx: SearchContext, deps: Deps, view: View) -> Ranking | Degraded:
    """Raises: EmbeddingModelMismatch; whatever else the provider can't do only costs this arm."""
    try:
        provider = await deps.provider()
        if (provider.model, provider.dim) != (view.model, view.dim):
            raise EmbeddingModelMismatch(view.model, view.dim, provider.model, provider.dim)
        vector = await provider.embed_query(ctx.asked.text)
    except (EmbeddingUnavailable, EmbeddingRefused, BadModelFile, BadSettings) as exc:
        logger.warning("search without vectors", extra={"reason": exc.reason, "error": exc.message})
        return Degraded("semantic", exc.reason)
    return await deps.store.nearest(view, vector, ctx.query.where, deps.settings.candidates)


async def _best_of(ask: Callable[[str], Awaitable[Ranking]], names: Sequence[str]) -> Ranking:
    """One ranking from several of one scale: an item's best score counts."""
    best: dict[ItemId, float] = {}
    for ranking in await asyncio.gather(*map(ask, names)):
        for candidate in ranking:
            best[candidate.id] = max(candidate.score, best.get(candidate.id, candidate.score))
    return sorted(
        (Candidate(id_, value) for id_, value in best.items()), key=lambda c: (-c.score, c.id.int)
    )


async def _gather(
    arms: Mapping[str, Arm], limit_s: float
) -> tuple[dict[str, Ranking], list[Degraded]]:
    """The rankings that come within `limit_s`, and what does not. A store's error ends the search."""
    tasks = {arm: asyncio.create_task(asked) for arm, asked in arms.items()}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=limit_s, return_when=asyncio.FIRST_EXCEPTION)
        failed = [task for task in tasks.values() if task.done() and task.exception()]
        if failed:
            failed[0].result()
        rankings: dict[str, Ranking] = {}
        missing = []
        for arm, task in tasks.items():
            said = task.result() if task.done() else Degraded(arm, "deadline")
            if isinstance(said, Degraded):
                missing.append(said)
            else:
                rankings[arm] = said
        return rankings, missing
    finally:
        late = [task for task in tasks.values() if not task.done()]
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)


def _explained(ctx: SearchContext) -> dict[ItemId, dict[str, float]]:
    """Beside the raw scores: `ARM.rank` (from 1), `ARM.scaled`, `ARM.weight`, `bonus.NAME` and
    `factor.NAME`."""
    told = {id_: dict(ctx.signals.get(id_, {})) for id_ in ctx.items}
    for arm, ranking in ctx.rankings.items():
        if not ranking:
            continue
        for rank, (id_, scaled) in enumerate(
            fusion.scale(ranking, fusion.FLOORS.get(arm)), start=1
        ):
            if id_ in told:
                told[id_][f"{arm}.rank"] = float(rank)
                told[id_][f"{arm}.scaled"] = scaled
                told[id_][f"{arm}.weight"] = ctx.weights[arm]
    return told
