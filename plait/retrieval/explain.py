"""Explain why an item is not in an answer and how each stage moved it, from the trace of the stages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plait.domain.errors import PlaitError
from plait.domain.recall import Dropped
from plait.domain.values import Candidate, Filter, Item, ItemId
from plait.retrieval.query.exclusions import excluded_by
from plait.retrieval.query.strategy import Kind
from plait.retrieval.ranking import fusion
from plait.retrieval.search_context import Deps, SearchContext, Snapshot
from plait.retrieval.stages.semantic import nearest

# Most ids explained in one answer. Those that no arm returned cost two deeper searches together, not each.
MAX_IDS = 20
# How many candidates the deeper search of an arm returns.
DEEP = 1_000
# The stage of each arm, to name the one that left an item out.
STAGE_OF = {
    "lexical": "fts",
    "phrase": "fts",
    "identifiers": "fts",
    "exact": "fts",
    "anchors": "resolve",
}
INCLUDED = "included"


@dataclass(frozen=True, slots=True)
class Step:
    """An item after one stage. `rank` from 1; 0: no longer a candidate. `moved`: ranks gained in this step."""

    stage: str
    rank: int
    score: float
    moved: int = 0


def steps(trail: Sequence[Snapshot], id_: ItemId) -> tuple[Step, ...]:
    """The item's rank and score stage by stage; ends where it was dropped."""
    found: list[Step] = []
    for snapshot in trail:
        rank = _rank(snapshot, id_)
        if not rank and not found:
            continue
        moved = found[-1].rank - rank if found and rank else 0
        found.append(Step(snapshot.stage, rank, snapshot.scores.get(id_, math.nan), moved))
        if not rank:
            break
    return tuple(found)


def sentence(why: Dropped) -> str:
    """One line of text: `fetch dropped it (cut): rank 131, 0.210 where 0.254 was needed`."""
    if why.cause == INCLUDED:
        return f"it is in the answer: rank {why.rank}, score {why.score:.3f}"
    parts = [f"rank {why.rank}"] if why.rank else []
    if not math.isnan(why.score):
        bar = "" if math.isnan(why.bar) else f" where {why.bar:.3f} was needed"
        parts.append(f"{why.score:.3f}{bar}")
    return f"{why.stage} dropped it ({why.cause})" + (": " + ", ".join(parts) if parts else "")


async def why_not(ctx: SearchContext, deps: Deps) -> dict[ItemId, Dropped]:
    """For each id of `ctx.query.why_not` (`MAX_IDS` at most) the stage that dropped it and by how much.

    `ctx` must be finished and traced. An item of the answer has the cause `included`. Costs one read of the items,
    and two deeper searches if no arm returned one of them."""
    ids = tuple(dict.fromkeys(ctx.query.why_not))[:MAX_IDS]
    causes = {id_: why for id_ in ids if (why := _from_stages(ctx, id_)) is not None}
    missing = [id_ for id_ in ids if id_ not in causes]
    if missing:
        causes |= await _not_retrieved(ctx, deps, missing)
    return {id_: causes[id_] for id_ in ids}


def _from_stages(ctx: SearchContext, id_: ItemId) -> Dropped | None:
    """The cause from the trace of the stages; None: no arm returned the item."""
    if (included := _included(ctx, id_)) is not None:
        return included
    if (why := ctx.dropped.get(id_)) is not None:
        return _with_last_place(ctx, id_, why)
    if ctx.block is not None:
        for omission in ctx.block.omitted:
            if omission.id == id_:
                return _with_last_place(ctx, id_, omission.why)
    seen = [n for n, snapshot in enumerate(ctx.trail) if id_ in snapshot.scores]
    if seen:
        return _left_by(ctx, id_, seen[-1])
    return _cut(ctx, id_)


def _included(ctx: SearchContext, id_: ItemId) -> Dropped | None:
    scores = [(hit.item.id, hit.score) for hit in ctx.hits]
    if ctx.block is not None:
        scores = [(one.item.id, one.score) for one in ctx.block.items]
        for rank, one in enumerate(ctx.block.items, start=1):
            if id_ in one.also:  # joined to a neighbour's text
                return Dropped("format", INCLUDED, one.score, rank=rank)
    for rank, (found, score) in enumerate(scores, start=1):
        if found == id_:
            return Dropped("format", INCLUDED, score, rank=rank)
    return None


def _left_by(ctx: SearchContext, id_: ItemId, last: int) -> Dropped:
    """For an item in snapshot `last` and in no later one, whose stage recorded no cause."""
    before = ctx.trail[last]
    score, rank = before.scores[id_], _rank(before, id_)
    if last + 1 < len(ctx.trail) and (stage := ctx.trail[last + 1].stage) != "format":
        remaining = ctx.trail[last + 1].scores.values()
        return Dropped(stage, "cut", score, min(remaining, default=math.nan), rank)
    if score < ctx.query.min_score:
        return Dropped("format", "threshold", score, ctx.query.min_score, rank)
    bar = min((score for _, score in _answer(ctx)), default=math.nan)
    return Dropped("format", "limit", score, bar, rank)


def _answer(ctx: SearchContext) -> list[tuple[ItemId, float]]:
    if ctx.block is not None:
        return [(one.item.id, one.score) for one in ctx.block.items]
    return [(hit.item.id, hit.score) for hit in ctx.hits]


def _cut(ctx: SearchContext, id_: ItemId) -> Dropped | None:
    """For an item that an arm returned but whose fused score was too low to be fetched."""
    unite = fusion.rrf if ctx.fusion == "rrf" else fusion.minmax
    fused = unite(ctx.rankings, ctx.strategy.weights)
    if id_ not in fused:
        return None
    rank = fusion.order(fused, ctx.rankings).index(id_) + 1
    placed = [fused[other] for other in _first(ctx) if other in fused]
    bar = min(placed, default=math.nan)
    if fused[id_] > bar:
        return Dropped("fetch", "gone", fused[id_], rank=rank)  # no longer stored, or closed
    return Dropped("fetch", "cut", fused[id_], bar, rank)


def _first(ctx: SearchContext) -> Mapping[ItemId, float]:
    return ctx.trail[0].scores if ctx.trail else {}


def _with_last_place(ctx: SearchContext, id_: ItemId, why: Dropped) -> Dropped:
    """`why` with rank and score from the trail where its stage recorded none."""
    seen = [snapshot for snapshot in ctx.trail if id_ in snapshot.scores]
    if not seen:
        return why
    rank = why.rank or _rank(seen[-1], id_)
    score = seen[-1].scores[id_] if math.isnan(why.score) else why.score
    return replace(why, rank=rank, score=score)


def _rank(snapshot: Snapshot, id_: ItemId) -> int:
    if id_ not in snapshot.scores:
        return 0
    return list(snapshot.scores).index(id_) + 1


async def _not_retrieved(
    ctx: SearchContext, deps: Deps, missing: Sequence[ItemId]
) -> dict[ItemId, Dropped]:
    """For items that no arm returned: unknown, excluded by the filter, or too far down every arm."""
    items = await deps.store.fetch(ctx.at, missing)
    places = await deps.store.places(ctx.at, list(items)) if items else {}
    causes: dict[ItemId, Dropped] = {}
    for id_ in missing:
        if id_ not in items:
            causes[id_] = Dropped("resolve", "not-found")
        elif field := excluded_by(items[id_], places.get(id_), ctx.query.where):
            causes[id_] = Dropped("filter", f"filter: {field}")
        elif ctx.strategy.kind is Kind.TRANSACTIONAL:
            causes[id_] = Dropped("strategy", "transactional")
    left = {id_: item for id_, item in items.items() if id_ not in causes}
    if left:
        causes |= await _too_far_down(ctx, deps, left)
    return causes


async def _too_far_down(
    ctx: SearchContext, deps: Deps, items: Mapping[ItemId, Item]
) -> dict[ItemId, Dropped]:
    """By item, the arm that came closest to returning it: the item's score there, and the lowest score that the arm
    did return. Not even among the `DEEP` best: no score, and rank 0."""
    deep = await _search_deeper(ctx, deps, ctx.query.where)
    causes = {}
    for id_ in items:
        nearest = Dropped("fts" if "lexical" in deep else "semantic", "not-retrieved")
        closest = -math.inf
        for arm, ranking in deep.items():
            bar = min((c.score for c in ctx.rankings.get(arm, ())), default=math.nan)
            for rank, candidate in enumerate(ranking, start=1):
                if candidate.id != id_:
                    continue
                share = candidate.score / bar if bar > 0.0 else 0.0
                if share > closest:
                    stage = STAGE_OF.get(arm, arm)
                    nearest = Dropped(stage, "not-retrieved", candidate.score, bar, rank)
                    closest = share
                break
        causes[id_] = nearest
    return causes


async def _search_deeper(
    ctx: SearchContext, deps: Deps, where: Filter
) -> dict[str, Sequence[Candidate]]:
    """The two large arms again with `DEEP` candidates; an arm that did not run, or cannot, is left out."""
    deep: dict[str, Sequence[Candidate]] = {}
    if "lexical" in ctx.rankings and ctx.analysis.terms:
        terms, weights = ctx.analysis.terms, ctx.analysis.weights
        deep["lexical"] = await deps.store.lexical(ctx.at, terms, where, DEEP, weights)
    if "semantic" in ctx.rankings:
        try:
            again = replace(ctx, query=replace(ctx.query, where=where))
            deep["semantic"] = await nearest(again, deps, DEEP)
        except PlaitError:  # it answered a moment ago; the lexical arm is enough without it
            return deep
    return deep
