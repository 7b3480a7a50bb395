"""Pack a ranked context into its block: select the candidates, give a reason for each, explain an empty block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.domain.errors import InvalidInput
from plait.domain.recall import Dropped, Omission, PackingOptions, RecallFormat
from plait.domain.scope import unqualify
from plait.domain.values import Collection, Item, ItemId
from plait.ports import Place
from plait.retrieval.packing.dedupe import same_text
from plait.retrieval.packing.impact_lines import impact_lines
from plait.retrieval.packing.neighbours import join
from plait.retrieval.packing.pack import CODE, MEMORY, STAGE, Limits, pack, silent
from plait.retrieval.packing.piece import Piece
from plait.retrieval.packing.reasons import Words, reasons, replies_to, words_of
from plait.retrieval.query import own_names
from plait.retrieval.query.strategy import Kind
from plait.retrieval.ranking.coherence import APART
from plait.retrieval.ranking.freshness import freshness
from plait.retrieval.ranking.trust import trust
from plait.retrieval.search_context import SearchContext
from plait.settings import RecallSettings
from plait.text import token_count

MAX_BUDGET = 1_000_000
MIN_BUDGET = 20  # the heading and one short line
MIN_WINDOW, MAX_WINDOW = 200, 100_000_000
MAX_ALSO = 4  # neighbours joined to one item
MAP_ITEMS = 200  # of a repo map, whose items are one line each


def check(options: PackingOptions) -> None:
    """Raises: InvalidInput, for a budget, window or model's name that is out of range."""
    for name, value, least, most in (
        ("budget_tokens", options.budget_tokens, MIN_BUDGET, MAX_BUDGET),
        ("window_tokens", options.window_tokens, MIN_WINDOW, MAX_WINDOW),
    ):
        if value and not least <= value <= most:
            raise InvalidInput(
                f"{name} is {value}; it must be {least} to {most}, or 0 for the default",
                field=name,
                value=value,
            )
    if len(options.tokenizer) > token_count.MAX_MODEL:
        raise InvalidInput(
            f"the tokenizer's name has {len(options.tokenizer)} characters, more than"
            f" {token_count.MAX_MODEL}; name a model, as in gpt-4o",
            field="tokenizer",
        )


def limits(options: PackingOptions, settings: RecallSettings, k: int) -> Limits:
    """Raises: InvalidInput, as `check`."""
    check(options)
    budget = _budget(options, settings)
    shares = {CODE: settings.code_share, MEMORY: settings.memory_share}
    return Limits(budget, token_count.counter(options.tokenizer), k, shares, options.prefer_source)


def _budget(options: PackingOptions, settings: RecallSettings) -> int:
    if options.budget_tokens or not options.window_tokens:
        return options.budget_tokens or settings.budget_tokens
    return max(MIN_BUDGET, min(MAX_BUDGET, int(options.window_tokens * settings.window_share)))


def pool(ctx: SearchContext, bar: float) -> tuple[list[ItemId], dict[ItemId, Dropped]]:
    """The best `k` code items and the best `k` agent items, in rank order, and those below `bar`. Both groups are
    needed: the packer can only divide its budget between groups that have candidates."""
    taken = {True: 0, False: 0}
    candidates: list[ItemId] = []
    below: dict[ItemId, Dropped] = {}
    most = MAP_ITEMS if _map(ctx) and not ctx.query.k else ctx.k
    for rank, id_ in enumerate(ctx.order, start=1):
        score = ctx.fused.get(id_, 0.0)
        if score < bar:
            below[id_] = Dropped(STAGE, "threshold", score, bar, rank)
            continue
        place = ctx.places.get(id_)
        is_code = place is None or place.collection is Collection.FILES
        if taken[is_code] < most:
            taken[is_code] += 1
            candidates.append(id_)
        else:
            below[id_] = Dropped(STAGE, "items", float(rank), float(most), rank)
    return candidates, below


def ids_to_fetch(ctx: SearchContext, candidates: Sequence[ItemId]) -> list[ItemId]:
    """The ids whose texts are needed: the candidates, the neighbours joined to them, and the turns that short turns
    reply to."""
    near = [other for id_ in candidates for other in ctx.also.get(id_, ())[:MAX_ALSO]]
    replied_to = [ctx.before[id_] for id_ in candidates if id_ in ctx.before]
    return list(dict.fromkeys((*candidates, *near, *replied_to)))


def block(
    ctx: SearchContext,
    candidates: Sequence[ItemId],
    left_out: Mapping[ItemId, Dropped],
    items: Mapping[ItemId, Item],
    arms: Mapping[ItemId, Mapping[str, float]],
    settings: RecallSettings,
) -> SearchContext:
    """`ctx` with its block; what packing left out is in `dropped`."""
    assert ctx.options is not None
    bounds = limits(ctx.options, settings, _most(ctx))
    candidates = [id_ for id_ in candidates if id_ in items]
    repeats = same_text([items[id_] for id_ in candidates])
    left_out = {**left_out, **{id_: Dropped(STAGE, "duplicate") for id_ in repeats}}
    omitted = tuple(Omission(id_, ctx.fused.get(id_, 0.0), why) for id_, why in left_out.items())
    near = neighbours(
        ctx, {id_: items[id_] for id_ in ids_to_fetch(ctx, candidates) if id_ in items}
    )
    own = own_names.of_repositories(ctx.at) | own_names.of_packages([items[i] for i in candidates])
    words = words_of(ctx.analysis, own)
    pieces = [
        _piece(ctx, items[id_], near.get(id_, ()), arms.get(id_, {}), words, items)
        for id_ in candidates
        if id_ not in repeats
    ]
    preface = [f"- {line}" for line in impact_lines(ctx.impact)]
    if not pieces and not preface:
        packed = silent(bounds, silence(ctx, left_out), omitted)
    else:
        packed = pack(pieces, bounds, ctx.options.format, preface)
        packed = replace(packed, omitted=(*_ranked(ctx, packed.omitted), *omitted))
    dropped = {**ctx.dropped, **{o.id: o.why for o in packed.omitted}}
    order = [recalled.item.id for recalled in packed.items]
    return replace(ctx, block=packed, items=items, order=order, dropped=dropped)


def _ranked(ctx: SearchContext, omitted: Sequence[Omission]) -> tuple[Omission, ...]:
    """`omitted` with ranks among all candidates: the packer ranks only those that it was given."""
    ranks = {id_: rank for rank, id_ in enumerate(ctx.order, start=1)}
    return tuple(
        replace(one, why=replace(one.why, rank=ranks.get(one.id, one.why.rank))) for one in omitted
    )


def silence(ctx: SearchContext, left_out: Mapping[ItemId, Dropped]) -> str:
    """Why the block is empty, for people."""
    if ctx.strategy.kind is Kind.TRANSACTIONAL:
        return "there is nothing to look up in this"
    unsure = [why for why in ctx.dropped.values() if why.cause == "silence"]
    if unsure:
        sure = f"{unsure[0].score:.2f}, below {unsure[0].bar:.2f}"
        return f"nothing helps: that any of {len(unsure)} found answers this is {sure}"
    below = [why for why in left_out.values() if why.cause == "threshold"]
    if below:
        best = f"{max(why.score for why in below):.2f}, below {below[0].bar:.2f}"
        if ctx.shown:
            return (
                f"nothing else helps: {len(ctx.shown)} found were shown to this session a moment ago,"
                f" the best of {len(below)} others scores {best}"
            )
        return f"nothing helps: the best of {len(below)} scores {best}"
    if ctx.shown:
        return "what would help was shown to this session a moment ago"
    if ctx.dropped:
        return "nothing helps: " + _causes(ctx.dropped)
    return "nothing was found"


def _causes(dropped: Mapping[ItemId, Dropped]) -> str:
    counts: dict[str, int] = {}
    for why in dropped.values():
        counts[why.cause] = counts.get(why.cause, 0) + 1
    listed = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{count} left out by {cause}" for cause, count in listed)


def neighbours(ctx: SearchContext, items: Mapping[ItemId, Item]) -> dict[ItemId, list[Item]]:
    """By item, the items joined to it: other parts of its symbol, and neighbours added by a stage (`ctx.also`). Each
    neighbour belongs to the best-ranked item that has it, so that nothing is shown twice."""
    parts: dict[tuple[str, str, str], list[ItemId]] = {}
    for id_, item in items.items():
        if item.collection is Collection.FILES and item.symbol and item.kind not in APART:
            key = (item.repo, item.path, item.symbol.partition("#")[0])
            parts.setdefault(key, []).append(id_)
    given: set[ItemId] = set()
    near: dict[ItemId, list[Item]] = {}
    for id_, item in items.items():
        of_symbol = parts.get((item.repo, item.path, item.symbol.partition("#")[0]), [])
        mine = [
            other
            for other in (*of_symbol, *ctx.also.get(id_, ())[:MAX_ALSO])
            if other != id_ and other in items and other not in given
        ]
        if mine and id_ not in given:
            near[id_] = [items[other] for other in dict.fromkeys(mine)][:MAX_ALSO]
            given.update(mine)
    return near


def _piece(
    ctx: SearchContext,
    item: Item,
    near: Sequence[Item],
    arms: Mapping[str, float],
    words: Words,
    items: Mapping[ItemId, Item],
) -> Piece:
    place = ctx.places.get(item.id) or Place(
        item.repo, item.collection, item.path, item.symbol, item.kind, item.is_test
    )
    several = len(ctx.at.revisions) > 1
    state = ctx.item_states.get(item.id)
    return Piece(
        item,
        ctx.fused.get(item.id, 0.0),
        _reasons(ctx, item, items, reasons(ctx, item, arms, words)),
        trust(place, state),
        freshness(place, state),
        unqualify(ctx.at.tenant, item.repo) if several else "",
        join(item, near) if near else None,
        dict(arms),
        state.named if state is not None else (),
    )


def _reasons(
    ctx: SearchContext, item: Item, items: Mapping[ItemId, Item], found: tuple[str, ...]
) -> tuple[str, ...]:
    """`found`, and for a short turn the turn that it replies to. That comes first, because a context shows only the
    first reason, unless a stage gave one. External text (tool output) is never quoted as a reason."""
    other = ctx.before.get(item.id)
    state = ctx.item_states.get(other) if other is not None else None
    if other is None or other not in items or state is None or state.external:
        return found
    reply = replies_to(items[other].content)
    if not reply:
        return found
    return (*found, reply) if ctx.reasons.get(item.id) else (reply, *found)


def _map(ctx: SearchContext) -> bool:
    return ctx.options is not None and ctx.options.format is RecallFormat.REPO_MAP


def _most(ctx: SearchContext) -> int:
    return MAP_ITEMS if _map(ctx) and not ctx.query.k else ctx.k
