"""What ranks agents' items: importance, age, freshness, trust, tags. Pure functions and stages alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.deadline import Deadline
from plait.domain.recall import AnchorState, Freshness, NamedAnchor, PackingOptions, Trust
from plait.domain.values import Candidate, Collection, ItemId, Revision
from plait.ports import ItemState, Place, RecallStore, SearchStore, View
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.strategy import Strategy
from plait.retrieval.ranking import freshness, fusion, memory_score, trust
from plait.retrieval.ranking.memory_score import Blend, recency
from plait.retrieval.search_context import Deps, SearchContext
from plait.retrieval.stages.filter import filter as filter_stage
from plait.retrieval.stages.score import score
from plait.retrieval.stages.tags import tags
from plait.settings import RecallSettings, SearchSettings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BLEND = Blend.of(RecallSettings())
shares = st.floats(0.0, 1.0, allow_nan=False)


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


def place(
    importance: float = 0.5,
    days: float = 0.0,
    collection: Collection = Collection.MEMORIES,
    tags: tuple[str, ...] = (),
) -> Place:
    ts = NOW - timedelta(days=days) if collection is not Collection.FILES else None
    return Place("r", collection, "", "", "turn", False, importance=importance, ts=ts, tags=tags)


class Store:
    def __init__(self, **item_states: ItemState) -> None:
        self.states_by_id = {n(int(name[1:])): said for name, said in item_states.items()}
        self.asked = 0

    async def item_states(self, view: View, ids: list[ItemId]) -> dict[ItemId, ItemState]:
        self.asked += 1
        return {id_: self.states_by_id.get(id_, ItemState(anchored=False)) for id_ in ids}


def context(text: str, places: dict[int, Place], fused: dict[int, float]) -> SearchContext:
    query = SearchQuery(text)
    return SearchContext(
        query,
        analyse(query),
        10,
        "minmax",
        Deadline.after(60.0),
        view=View((Revision(1, "r", 1),), "", 0),
        strategy=Strategy(weights={"lexical": 1.0}),
        places={n(i): p for i, p in places.items()},
        fused={n(i): s for i, s in fused.items()},
        order=[n(i) for i in fused],
    )


def deps(store: Store | None = None, receipts: object = None) -> Deps:
    async def no_provider() -> object:
        raise AssertionError("a model was opened")

    return Deps(
        cast(SearchStore, store or Store()),
        no_provider,  # type: ignore[arg-type]
        SearchSettings(),
        receipts=cast("RecallStore | None", receipts),
        now=lambda: NOW,
    )


def test_a_middling_item_keeps_its_score_and_the_weights_are_the_ones_set() -> None:
    assert BLEND.factor(0.5, 0.5) == pytest.approx(1.0)
    assert BLEND.factor(1.0, 0.5) == pytest.approx((0.7 + 0.2 + 0.05) / 0.85)
    assert BLEND.factor(0.5, 1.0) == pytest.approx((0.7 + 0.1 + 0.1) / 0.85)
    alone = Blend.of(RecallSettings(importance_weight=0, recency_weight=0))
    assert alone.factor(0.0, 0.0) == alone.factor(1.0, 1.0) == 1.0
    none = Blend.of(RecallSettings(similarity_weight=0, importance_weight=0, recency_weight=0))
    assert none.factor(0.1, 0.9) == 1.0


@given(shares, shares, shares)
def test_the_blend_is_bounded_and_grows_with_both(i: float, r: float, more: float) -> None:
    assert 0.8 < BLEND.factor(i, r) < 1.2
    assert BLEND.factor(max(i, more), r) >= BLEND.factor(i, r)
    assert BLEND.factor(i, max(r, more)) >= BLEND.factor(i, r)


def test_recency_halves_with_each_half_life() -> None:
    day = 86_400.0
    assert recency(0.0, 30 * day) == recency(-5 * day, 30 * day) == 1.0
    assert recency(30 * day, 30 * day) == pytest.approx(0.5)
    assert recency(90 * day, 30 * day) == pytest.approx(0.125)


def test_ages_count_from_the_newest_that_competes() -> None:
    old = {n(1): place(days=1_000), n(2): place(days=1_090)}
    new = {n(1): place(days=0), n(2): place(days=90)}
    assert memory_score.age_and_importance(old, BLEND) == pytest.approx(
        memory_score.age_and_importance(new, BLEND)
    )
    code = place(collection=Collection.FILES)
    assert memory_score.age_and_importance({n(1): code}, BLEND) == {}


@pytest.mark.parametrize(
    ("text", "newest"),
    [
        ("What is the latest deploy command?", True),
        ("where does Hanna live now?", False),
        ("Which database do we currently use?", True),
        ("do we still use tox", True),
        ("recently renamed functions", False),
    ],
)
def test_a_question_for_what_is_so_now_is_told(text: str, newest: bool) -> None:
    assert memory_score.asks_for_newest(text) is newest


def test_meaning_weighs_no_less_for_what_was_said_in_a_long_question_or_a_young_index() -> None:
    rankings = {
        "lexical": [Candidate(n(1), 2.0), Candidate(n(2), 1.0)],
        "semantic": [Candidate(n(2), 0.8), Candidate(n(1), 0.2)],
    }
    low = {"lexical": 0.55, "semantic": 0.45}
    found = memory_score.similarity(rankings, low, fusion.minmax, [n(1), n(2)])
    assert found[n(1)] < 1.0 < found[n(2)]
    high = {"lexical": 0.2, "semantic": 0.8}
    assert memory_score.similarity(rankings, high, fusion.minmax, [n(1)]) == {}
    assert memory_score.similarity(rankings, {"lexical": 1.0}, fusion.minmax, [n(1)]) == {}


FRESH = [
    (None, Freshness.UNVERIFIABLE),
    (ItemState(anchored=False), Freshness.UNVERIFIABLE),
    (ItemState(True, has_baseline=False, exists=True), Freshness.UNVERIFIABLE),
    (ItemState(True, has_baseline=False, exists=False), Freshness.UNVERIFIABLE),
    (ItemState(True, has_baseline=True, exists=True), Freshness.FRESH),
    (ItemState(True, has_baseline=True, exists=True, changed=True), Freshness.DRIFTED),
    (ItemState(True, has_baseline=True, exists=False), Freshness.ORPHANED),
]


@pytest.mark.parametrize(("item_states", "expected"), FRESH)
def test_freshness_of_a_memory(item_states: ItemState | None, expected: Freshness) -> None:
    assert freshness.freshness(place(), item_states) is expected
    assert freshness.freshness(place(collection=Collection.FILES), item_states) is Freshness.FRESH


def named(*states: AnchorState) -> tuple[NamedAnchor, ...]:
    return tuple(NamedAnchor("src/a.py", f"src.a.f{i}", one) for i, one in enumerate(states))


SAME, CHANGED, MOVED, GONE = AnchorState
FRESHLY = ItemState(True, has_baseline=True, exists=True)
NAMED = [
    (ItemState(False), (SAME,), Freshness.FRESH, 1.0),
    (ItemState(False), (SAME, MOVED), Freshness.FRESH, 1.0),
    (ItemState(False), (SAME, CHANGED), Freshness.DRIFTED, 0.95),
    (ItemState(False), (SAME, GONE), Freshness.DRIFTED, 0.95),
    (ItemState(False), (GONE, GONE), Freshness.ORPHANED, 0.85),
    (ItemState(True, exists=True), (CHANGED,), Freshness.DRIFTED, 0.95),  # the given one is unknown
    (FRESHLY, (SAME,), Freshness.FRESH, 1.0),
    (FRESHLY, (CHANGED,), Freshness.DRIFTED, 0.95),
    (FRESHLY, (GONE,), Freshness.DRIFTED, 0.95),
    (replace(FRESHLY, changed=True), (SAME,), Freshness.DRIFTED, 0.9),
    (ItemState(True, has_baseline=True), (SAME,), Freshness.ORPHANED, 0.75),
]


@pytest.mark.parametrize(("given", "states", "expected", "factor"), NAMED)
def test_freshness_of_what_a_text_names(
    given: ItemState, states: tuple[AnchorState, ...], expected: Freshness, factor: float
) -> None:
    item_states = replace(given, named=named(*states))
    assert freshness.freshness(place(), item_states) is expected
    found = freshness.freshness_factors({n(1): place()}, {n(1): item_states})
    assert found == ({} if factor == 1.0 else {n(1): factor})


def test_a_reason_says_what_changed() -> None:
    def reason(*anchors: NamedAnchor) -> str:
        return freshness.reason(place(), ItemState(False, named=anchors))

    assert reason(*named(SAME)) == ""
    assert reason(*named(CHANGED, GONE)) == "f0 in src/a.py changed since; f1 in src/a.py is gone"
    moved = NamedAnchor("src/a.py", "src.a.A.get", MOVED, "lib/b.py")
    assert reason(moved) == "A.get in src/a.py is in lib/b.py now"
    changed = replace(moved, state=CHANGED)
    assert reason(changed) == "A.get in src/a.py is in lib/b.py now and changed"
    assert reason(NamedAnchor("src/a/__init__.py", "src.a.run", GONE)) == (
        "run in src/a/__init__.py is gone"
    )
    assert reason(NamedAnchor("docs/x.md", "", CHANGED)) == "docs/x.md changed since"
    assert reason(*named(*[GONE] * 5)).endswith("f2 in src/a.py is gone; 2 more")
    both = ItemState(True, has_baseline=True, named=named(CHANGED))
    assert freshness.reason(place(), both) == "its code is gone; f0 in src/a.py changed since"


def test_trust_of_an_item() -> None:
    said = place()
    assert trust.trust(place(collection=Collection.FILES), None) is Trust.REPOSITORY
    assert trust.trust(said, None) is Trust.AGENT_CLAIMED
    assert trust.trust(said, ItemState(False, proven=True)) is Trust.TEST_PASSED
    assert trust.trust(said, ItemState(False, proven=True, external=True)) is Trust.EXTERNAL


def test_no_prior_moves_an_item_by_much() -> None:
    for factor in (
        *freshness.WEIGHTS.freshness.values(),
        *freshness.WEIGHTS.freshness_of_text.values(),
        *trust.WEIGHTS.trust.values(),
    ):
        assert 0.7 <= factor <= 1.1


async def test_score_weighs_what_is_known_and_says_why() -> None:
    places = {i: place() for i in (1, 2, 3)}
    gone = ItemState(True, has_baseline=True)
    store = Store(n1=gone, n2=ItemState(False, external=True))
    ctx = await score(context("why is it slow", places, {1: 0.9, 2: 0.85, 3: 0.8}), deps(store))
    assert list(ctx.order) == [n(3), n(2), n(1)]
    assert ctx.factors["freshness"] == {n(1): 0.75}
    assert ctx.factors["trust"] == {n(2): 0.9}
    assert ctx.reasons == {n(1): ("its code is gone",)}
    assert ctx.item_states[n(1)] == gone


async def test_importance_and_age_order_equals_but_not_the_unequal() -> None:
    places = {1: place(0.3, 200), 2: place(0.9, 1), 3: place(1.0, 0)}
    ctx = await score(context("why is it slow", places, {1: 0.8, 2: 0.79, 3: 0.4}), deps())
    assert list(ctx.order) == [n(2), n(1), n(3)]


async def test_code_alone_costs_no_question() -> None:
    store = Store()
    code = place(collection=Collection.FILES)
    ctx = await score(context("why is it slow", {1: code}, {1: 0.8}), deps(store))
    assert (store.asked, ctx.factors) == (0, {})


async def test_tags_raise_what_the_query_names() -> None:
    places = {
        1: place(tags=("how-to", "release")),
        2: place(tags=("database",)),
        3: place(tags=("release notes",)),
    }
    ctx = await tags(context("how do we release", places, {1: 0.5, 2: 0.5, 3: 0.5}), deps())
    assert ctx.factors["tags"] == {n(1): 1.1}
    assert ctx.reasons == {n(1): ("tagged release",)}
    plain = context("how do we deploy", places, {1: 0.5, 2: 0.5, 3: 0.5})
    assert await tags(plain, deps()) is plain


class Receipts:
    def __init__(self, *shown: int) -> None:
        self.seen = frozenset(n(i) for i in shown)
        self.asked: list[tuple[str, tuple[str, ...], str, datetime]] = []

    async def shown(
        self, tenant: str, repos: list[str], session_key: str, since: datetime
    ) -> frozenset[ItemId]:
        self.asked.append((tenant, tuple(repos), session_key, since))
        return self.seen


def in_session(cooldown_s: float = 60.0, session: str = "s") -> SearchContext:
    from dataclasses import replace

    ctx = context("why", {1: place(), 2: place()}, {1: 0.9, 2: 0.8})
    return replace(ctx, options=PackingOptions(session_key=session, cooldown_s=cooldown_s))


async def test_what_a_session_was_shown_is_left_out_for_a_while() -> None:
    receipts = Receipts(1, 7)
    ctx = await filter_stage(in_session(), deps(receipts=receipts))
    assert (list(ctx.order), ctx.shown) == ([n(2)], frozenset([n(1)]))
    assert receipts.asked == [("default", ("r",), "s", NOW - timedelta(seconds=60))]
    why = ctx.dropped[n(1)]
    assert (why.stage, why.cause, why.score, why.rank) == ("filter", "cooldown", 0.9, 1)


@pytest.mark.parametrize(("cooldown_s", "session"), [(0.0, "s"), (60.0, "")])
async def test_without_a_session_or_a_cooldown_nothing_is_asked(
    cooldown_s: float, session: str
) -> None:
    receipts, ctx = Receipts(1), in_session(cooldown_s, session)
    assert await filter_stage(ctx, deps(receipts=receipts)) is ctx
    assert receipts.asked == []
