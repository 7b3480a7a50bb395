"""Parts of one symbol lift each other in long queries; neighbours read as one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions
from plait.domain.values import Collection, Filter, ItemId, Revision
from plait.ports import Place, View
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.ranking import coherence
from plait.retrieval.search_context import Deps, SearchContext
from plait.retrieval.stages.hierarchical import hierarchical

LONG = "the retry loop gives up " * 5
SHORT = "the retry loop gives up"


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


def place(symbol: str, lines: tuple[int, int], path: str = "a.py", kind: str = "function") -> Place:
    return Place("r", Collection.FILES, path, symbol, kind, False, *lines)


class Heads:
    """A store that knows first chunks of symbols, and what it was asked for."""

    def __init__(self, known: Mapping[str, ItemId]) -> None:
        self.known = known
        self.asked: list[tuple[str, str, str]] = []

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        self.asked += symbols
        return [self.known.get(symbol) for _, _, symbol in symbols]


def context(text: str, places: Sequence[Place], scores: Sequence[float]) -> SearchContext:
    query = SearchQuery(text)
    ids = [n(number) for number in range(len(places))]
    return SearchContext(
        query,
        analyse(query),
        k=10,
        fusion="minmax",
        deadline=Deadline.after(60.0),
        view=View((Revision(1, "r", 1),), "", 0),
        fused=dict(zip(ids, scores, strict=True)),
        order=ids,
        places=dict(zip(ids, places, strict=True)),
    )


def deps(store: Any = None) -> Deps:
    return cast(Deps, SimpleNamespace(store=store))


PARTS = [place("m.short", (1, 3)), place("m.long", (5, 50)), place("m.long", (51, 90))]


async def test_parts_of_a_symbol_lift_each_other() -> None:
    ctx = await hierarchical(context(LONG, PARTS, [0.50, 0.45, 0.40]), deps())
    assert list(ctx.order) == [n(1), n(0), n(2)]
    assert ctx.fused == pytest.approx({n(0): 0.50, n(1): 0.45 + 0.2 * 0.4, n(2): 0.4 + 0.2 * 0.45})


async def test_a_short_query_lifts_them_less_and_parts_of_a_module_not_at_all() -> None:
    ctx = await hierarchical(context(SHORT, PARTS, [0.50, 0.45, 0.40]), deps())
    assert ctx.fused == pytest.approx({n(0): 0.50, n(1): 0.45 + 0.1 * 0.4, n(2): 0.4 + 0.1 * 0.45})
    modules = [replace(p, kind="module") for p in PARTS]
    asked = context(LONG, modules, [0.50, 0.45, 0.40])
    assert (await hierarchical(asked, deps())).fused == asked.fused


async def test_same_names_in_two_files_say_nothing_of_each_other() -> None:
    places = [place("m.f", (1, 3)), place("m.f", (1, 3), path="b.py")]
    asked = context(LONG, places, [0.5, 0.4])
    assert (await hierarchical(asked, deps())).fused == asked.fused


async def test_scores_stay_below_one() -> None:
    ctx = await hierarchical(context(LONG, PARTS, [0.9, 1.0, 0.9]), deps())
    assert max(ctx.fused.values()) == 1.0


async def test_a_context_shows_a_part_with_its_head_and_hits_do_not() -> None:
    store = Heads({"m.long": n(77), "m.short": n(1), "m.other#2": n(3)})
    spots = [
        place("m.long", (91, 99)), place("m.short", (1, 3)), place("m", (5, 6), kind="module"),
        place("m.other#2", (101, 103)),
    ]  # fmt: skip
    asked = context(SHORT, spots, [0.5, 0.4, 0.3, 0.2])
    assert (await hierarchical(asked, deps(store))).also == {}
    assert store.asked == []
    wanted = replace(asked, options=PackingOptions())
    assert (await hierarchical(wanted, deps(store))).also == {n(0): (n(77),)}
    assert store.asked == [("r", "a.py", s) for s in ("m.long", "m.short", "m.other#2")]


async def test_a_head_that_is_gone_is_not_joined() -> None:
    wanted = replace(context(SHORT, [place("m.long", (91, 99))], [0.5]), options=PackingOptions())
    assert (await hierarchical(wanted, deps(Heads({})))).also == {}


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        (place("m.f", (1, 5)), place("m.f#2", (6, 9)), True),
        (place("m.f", (1, 5)), place("m.f#3", (60, 90)), True),
        (place("m.C.f", (4, 9)), place("m.C", (1, 30), kind="class"), True),
        (place("m.f", (4, 9)), place("m", (1, 30), kind="module"), False),
        (place("m.f", (1, 5)), place("m.g", (7, 9)), False),
        (place("", (1, 5)), place("", (6, 9)), True),
        (place("", (1, 5)), place("", (9, 12)), False),
        (place("m.f", (1, 5)), place("m.f", (1, 5), path="b.py"), False),
    ],
)
def test_what_reads_as_one_piece(one: Place, other: Place, joined: bool) -> None:
    found = coherence.neighbours([n(0), n(1)], {n(0): one, n(1): other})
    assert found.get(n(0), ()) == ((n(1),) if joined else ())


def test_a_piece_has_few_neighbours_the_best_first() -> None:
    places = {
        n(i): place("m.f" if not i else f"m.f#{i + 1}", (i * 10 + 1, i * 10 + 9)) for i in range(9)
    }
    order = [n(i) for i in (8, 7, 6, 5, 4, 3, 2, 1, 0)]
    assert coherence.neighbours(order, places)[n(0)] == (n(8), n(7), n(6), n(5))


def test_agents_items_have_no_neighbours() -> None:
    memory = Place("r", Collection.MEMORIES, "a.py", "m.f", "note", False)
    found = coherence.neighbours([n(0), n(1)], {n(0): memory, n(1): memory})
    assert found == {}
