"""The stages `resolve` and `strategy`, alone with a plain context."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.values import Collection, Filter, ItemId, Revision
from plait.ports import Spot, View
from plait.retrieval.query.analysis import QueryKind, SearchQuery, analyse
from plait.retrieval.query.code_references import Anchors, find_references
from plait.retrieval.query.strategy import Kind
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import SearchContext
from plait.retrieval.stages.resolve import AT_ONCE, MAX_PLACES, resolve
from plait.retrieval.stages.strategy import strategy
from plait.settings import SearchSettings

TRACE = """\
Loading fails
Traceback (most recent call last):
  File "/srv/app/cli.py", line 3, in main
    load(1)
  File "/usr/lib/site-packages/other/x.py", line 9, in call
    f()
  File "/srv/app/core.py", line 12, in load
    return store[key]
KeyError: 1
"""
DIFF = "--- a/app/core.py\n+++ b/app/core.py\n@@ -1,2 +1,2 @@\n def load():\n-    x\n+    y\n"


class Places:
    """A store that knows where things are, and counts what it is asked."""

    def __init__(self, **by_name: list[int]) -> None:
        self.by_name = by_name
        self.asked: list[Spot] = []

    async def view(self, where: Filter) -> View:
        return View((Revision(1, "r", 3),), "m", 2)

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        self.asked += spots
        return [[n(i) for i in self.by_name.get(self._name(s), [])][:k] for s in spots]

    @staticmethod
    def _name(spot: Spot) -> str:
        return spot.path.rpartition("/")[2].partition(".")[0] or spot.symbol.replace(".", "_")


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


async def staged(
    store: Places, text: str, attached: str = "", where: Filter | None = None
) -> SearchContext:
    query = SearchQuery(text, where or Filter(), attached=attached)
    ctx = SearchContext(query, analyse(query), 10, "minmax", Deadline.after(60.0))
    deps: Any = SimpleNamespace(
        tiers="both",
        foresee=lambda text: None,
        store=store,
        settings=SearchSettings(),
        now=lambda: datetime(2026, 11, 20, tzinfo=UTC),
    )
    return await strategy(await resolve(ctx, deps), deps)


def scores(ctx: SearchContext) -> dict[int, float]:
    return {c.id.int: c.score for c in ctx.rankings.get("anchors", ())}


@pytest.mark.parametrize(
    "text", ["how is a job picked?", "Session.get", "where does `load_all` go?"]
)
async def test_a_query_without_places_asks_nothing(text: str) -> None:
    store = Places()
    ctx = await staged(store, text)
    assert store.asked == []
    assert "anchors" not in ctx.rankings
    assert ctx.strategy.weights["anchors"] == 0.0


async def test_the_repositorys_own_name_is_no_identifier() -> None:
    ctx = await staged(Places(), "where does `r` call `load_all`")
    assert ctx.analysis.identifiers == ("load_all",)
    assert (await staged(Places(), "r")).analysis.identifiers == ("r",)


async def test_frames_count_from_the_innermost_of_the_repository() -> None:
    store = Places(core=[1, 2], cli=[3])
    ctx = await staged(store, TRACE)
    assert scores(ctx) == {1: 1.0, 3: pytest.approx(DEFAULT.locations.frame_decay)}
    assert ctx.reasons[n(1)] == ("frame 1 of the stack trace",)
    assert ctx.reasons[n(3)] == ("frame 2 of the stack trace",)
    assert ctx.strategy.kind is Kind.TRACE
    assert ctx.strategy.weights["anchors"] > 1.0


async def test_a_trace_is_no_part_of_what_is_asked() -> None:
    ctx = await staged(Places(), TRACE)
    assert ctx.analysis.text == "Loading fails\nKeyError: 1"
    assert {"load", "main", "fail"} <= set(ctx.analysis.terms)
    located = await staged(Places(core=[1]), TRACE)
    assert "main" not in located.analysis.terms
    assert {"srv", "usr", "lib", "site", "packag"}.isdisjoint(ctx.analysis.terms)


async def test_an_attached_diff_is_asked_for_by_its_lines() -> None:
    store = Places(core=[1])
    ctx = await staged(store, "", DIFF)
    assert ctx.strategy.kind is Kind.DIFF
    assert scores(ctx) == {1: 1.0}
    assert ctx.reasons[n(1)] == ("the diff changes it",)
    assert ctx.analysis.text == "app/core.py\nx\ny"


async def test_a_file_that_is_named_lifts_all_that_is_in_it() -> None:
    store = Places(core=[1, 2, 3])
    ctx = await staged(store, "why does app/core.py load twice when started again")
    assert scores(ctx) == {i: pytest.approx(0.8 * DEFAULT.locations.whole_file) for i in (1, 2, 3)}
    assert 0.0 < ctx.strategy.weights["anchors"] < 0.5
    assert ctx.strategy.kind is Kind.NATURAL or ctx.analysis.kind is QueryKind.IDENTIFIERS
    ctx = await staged(store, "why does app/core.py:12 load twice")
    assert scores(ctx)[1] > scores(ctx)[2] > scores(ctx)[3]


async def test_a_file_without_end_is_cut() -> None:
    ctx = await staged(Places(core=list(range(1, 9_000))), "look into app/core.py")
    assert len(scores(ctx)) == MAX_PLACES


async def test_a_named_test_is_found() -> None:
    ctx = await staged(Places(test_a=[7, 8]), "tests/test_a.py::TestB::test_c is flaky on CI")
    assert scores(ctx)[7] == pytest.approx(0.9)


async def test_words_of_time_are_for_agents_items() -> None:
    text = "what did we change last week"
    assert (await staged(Places(), text)).anchors.span is None
    where = Filter(collections=(Collection.FILES, Collection.MEMORIES))
    ctx = await staged(Places(), text, where=where)
    assert ctx.anchors.span is not None
    assert ctx.strategy.kind is Kind.TEMPORAL


async def test_weights_of_text_arms_add_up() -> None:
    for text in (TRACE, DIFF, "plain words", "Session.get"):
        weights = (await staged(Places(core=[1]), text)).strategy.weights
        assert weights["semantic"] + weights["lexical"] == pytest.approx(1.0)


@pytest.mark.parametrize("size", [10, 2 * AT_ONCE])
async def test_what_is_long_is_read_beside_the_loop(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[bool] = []

    def noted(text: str, attached: str = "", identifiers: Sequence[str] = ()) -> Anchors:
        here.append(threading.current_thread() is threading.main_thread())
        return find_references(text, attached, identifiers)

    monkeypatch.setattr("plait.retrieval.query.code_references.find_references", noted)
    ctx = await staged(Places(core=[1]), "loading fails", TRACE + "#1 + " * (size // 5))
    assert here == [size < AT_ONCE]
    assert ctx.anchors.is_trace
