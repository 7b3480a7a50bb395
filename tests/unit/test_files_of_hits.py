"""Files whose chunks fit together come first, and do not fill the list alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.deadline import Deadline
from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.ranking.files import coherent, spread
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext
from plait.retrieval.stages.files import files

DEPS = cast("Deps", SimpleNamespace())


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


def place(path: str, symbol: str = "", **more: Any) -> Place:
    told = {"collection": Collection.FILES, "repo": "r", **more}
    return Place(told["repo"], told["collection"], path, symbol, "function", False, 1, 2)


def context(places: Sequence[Place], scores: Sequence[float]) -> SearchContext:
    ids = [n(number) for number in range(len(places))]
    query = SearchQuery("where is it")
    return SearchContext(
        query=query,
        analysis=analyse(query),
        k=10,
        fusion="minmax",
        deadline=Deadline.after(10),
        order=ids,
        fused=dict(zip(ids, scores, strict=True)),
        places=dict(zip(ids, places, strict=True)),
    )


async def ranked(places: Sequence[Place], scores: Sequence[float]) -> list[int]:
    return [id_.int for id_ in (await files(context(places, scores), DEPS)).order]


async def test_a_file_of_several_good_chunks_passes_one_of_a_single_better_chunk() -> None:
    lucky, good = place("lucky.py"), [place("good.py", f"m.{name}") for name in "abc"]
    assert (await ranked([lucky, *good], [0.8, 0.75, 0.7, 0.7]))[0] == 1


async def test_a_chunk_that_is_far_better_stays_first() -> None:
    lucky, good = place("lucky.py"), [place("good.py", f"m.{name}") for name in "abc"]
    assert (await ranked([lucky, *good], [0.9, 0.4, 0.4, 0.4]))[0] == 0


async def test_parts_of_a_symbol_make_room_for_other_files() -> None:
    parts = [place("long.py", f"m.run#{i}" if i else "m.run") for i in range(4)]
    others = [place(f"{i}.py", f"m.f{i}") for i in range(3)]
    order = await ranked([*parts, *others], [0.9, 0.88, 0.86, 0.84, 0.5, 0.5, 0.5])
    assert order[0] == 0
    assert order.index(3) > order.index(6)


async def test_the_best_score_stays_and_others_stay_below_it() -> None:
    ctx = await files(context([place("a.py"), place("b.py"), place("a.py")], [0.7, 0.6, 0.5]), DEPS)
    scores = [ctx.fused[id_] for id_ in ctx.order]
    assert scores[0] == pytest.approx(0.7)
    assert scores == sorted(scores, reverse=True)
    assert set(ctx.factors) == {"file", "again"}


async def test_what_agents_wrote_keeps_its_score() -> None:
    note = replace(place("", repo="r"), collection=Collection.MEMORIES)
    ctx = await files(context([note, note, note], [0.7, 0.6, 0.5]), DEPS)
    assert [ctx.fused[id_] for id_ in ctx.order] == pytest.approx([0.7, 0.6, 0.5])


async def test_files_of_one_path_in_two_repositories_are_two() -> None:
    found = [place("a.py", repo="one"), place("a.py", repo="two")]
    assert spread(found, [0.9, 0.8]) == [None, None]


def test_of_scores_that_are_all_nothing_nothing_follows() -> None:
    assert coherent([place("a.py"), place("b.py")], [0.0, 0.0]) == [None, None]


def test_each_further_hit_of_a_file_counts_less() -> None:
    places = [place("a.py", "m.a"), place("a.py", "m.b"), place("a.py", "m.b#2")]
    first, *further = spread(places, [0.9, 0.8, 0.7])
    assert first is None
    assert further == pytest.approx(
        [DEFAULT.files.again, DEFAULT.files.part * DEFAULT.files.again**2]
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.floats(0, 1))))
def test_factors_are_of_what_is_there_and_never_above_one(
    found: list[tuple[str, str, float]],
) -> None:
    ranked = sorted(found, key=lambda one: -one[2])
    places = [place(path, symbol) for path, symbol, _ in ranked]
    scores = [score for _, _, score in ranked]
    for factors in (coherent(places, scores), spread(places, scores)):
        assert len(factors) == len(places)
        assert all(0.0 < value <= 1.0 for value in factors if value is not None)
