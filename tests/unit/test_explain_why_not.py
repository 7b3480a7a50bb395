"""Why an item is not in an answer: the stage that dropped it, the rule, and by how much."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.recall import (
    Block,
    Dropped,
    Freshness,
    Omission,
    RecalledItem,
    Tier,
    TokenCount,
    Trust,
)
from plait.domain.values import Collection, Filter, ItemId
from plait.ports import EmbeddingProvider, View
from plait.retrieval.explain import MAX_IDS, Step, sentence, steps, why_not
from plait.retrieval.query.analysis import analyse
from plait.retrieval.query.exclusions import matches
from plait.retrieval.search import SearchAnswer, SearchQuery, SearchService
from plait.retrieval.search_context import Deps, SearchContext, Snapshot, Stage
from plait.retrieval.stages import STAGES as ALL_STAGES
from plait.settings import SearchSettings
from tests.unit.test_search_pipeline import Model, Shelf, item, n

MANY = {i: 200.0 - i for i in range(200)}
# All items are of one file; scores stay as an arm gave them.
STAGES = tuple(stage for stage in ALL_STAGES if stage.name != "files")


async def why(shelf: Shelf, *ids: int, **asked: Any) -> dict[int, Dropped]:
    answer = await search(shelf, why_not=tuple(n(i) for i in ids), **asked)
    assert answer.why_not is not None
    return {id_.int: dropped for id_, dropped in answer.why_not.items()}


async def search(shelf: Shelf, **asked: Any) -> SearchAnswer:
    stages = asked.pop("stages", STAGES)
    service = SearchService(shelf, Model(), SearchSettings(), stages)
    return await service.search(SearchQuery("where are the cookies", **asked))


async def test_an_answer_says_nothing_of_what_nobody_asked() -> None:
    assert (await search(Shelf(item(1), lexical={1: 1.0}))).why_not is None


async def test_what_is_in_the_answer_is_said_to_be() -> None:
    told = await why(Shelf(item(1), item(2), lexical={1: 9.0, 2: 3.0}), 2)
    assert (told[2].cause, told[2].rank) == ("included", 2)
    assert sentence(told[2]).startswith("it is in the answer: rank 2")


async def test_an_unknown_item_was_never_found() -> None:
    told = await why(Shelf(item(1), lexical={1: 1.0}), 77)
    assert told == {77: Dropped("resolve", "not-found", told[77].score, told[77].bar)}
    assert sentence(told[77]) == "resolve dropped it (not-found)"


async def test_the_rank_past_k_is_told_with_the_score_that_the_last_one_had() -> None:
    shelf = Shelf(*[item(i) for i in range(5)], lexical={i: 10.0 - i for i in range(5)})
    told = (await why(shelf, 3, k=2))[3]
    assert (told.stage, told.cause, told.rank) == ("format", "limit", 4)
    assert [told.score, told.bar] == pytest.approx([0.7, 0.9])
    assert sentence(told) == "format dropped it (limit): rank 4, 0.700 where 0.900 was needed"


async def test_the_threshold_is_named_before_the_limit() -> None:
    shelf = Shelf(*[item(i) for i in range(5)], lexical={i: 10.0 - 2 * i for i in range(5)})
    told = (await why(shelf, 4, min_score=0.5))[4]
    assert told.cause == "threshold"
    assert [told.score, told.bar] == pytest.approx([0.2, 0.5])


async def test_what_was_too_low_to_be_placed_has_its_light_score_and_the_last_placed_ones() -> None:
    shelf = Shelf(*[item(i) for i in range(200)], lexical=MANY)
    told = (await why(shelf, 120))[120]
    assert (told.stage, told.cause, told.rank) == ("fetch", "cut", 121)
    assert told.score == pytest.approx(80 / 200)
    assert told.bar == pytest.approx(121 / 200), "80 are placed"


async def test_what_an_arm_did_not_return_is_looked_for_further_down() -> None:
    shelf = Shelf(*[item(i) for i in range(200)], lexical=MANY, semantic={1: 0.9})
    told = (await why(shelf, 180))[180]
    assert (told.stage, told.cause, told.rank) == ("fts", "not-retrieved", 181)
    assert (told.score, told.bar) == (20.0, 51.0), "150 are asked of an arm"


async def test_what_shares_nothing_with_the_query_has_no_rank() -> None:
    told = (await why(Shelf(item(1), item(2), lexical={1: 1.0}), 2))[2]
    assert (told.cause, told.rank, math.isnan(told.score)) == ("not-retrieved", 0, True)


async def test_a_filter_that_keeps_it_out_is_named_by_its_field() -> None:
    told = await why(Shelf(item(1), item(2)), 1, 2, where=Filter(path_glob="lib/**"))
    assert told[1].cause == "filter: path_glob"
    told = await why(Shelf(item(1)), 1, where=Filter(collections=(Collection.PLANS,)))
    assert (told[1].stage, told[1].cause) == ("filter", "filter: collections")


async def test_a_stage_that_drops_one_is_named_even_if_it_kept_no_word() -> None:
    async def greedy(ctx: SearchContext, deps: Deps) -> SearchContext:
        return replace(ctx, order=ctx.order[:1])

    stages = (*STAGES[:-1], Stage(greedy), STAGES[-1])
    shelf = Shelf(item(1), item(2), lexical={1: 9.0, 2: 3.0})
    told = (await why(shelf, 2, stages=stages))[2]
    assert (told.stage, told.cause, told.rank) == ("greedy", "cut", 2)
    assert told.bar > told.score


async def test_a_stages_own_word_counts_and_gets_the_rank_it_had() -> None:
    async def strict(ctx: SearchContext, deps: Deps) -> SearchContext:
        return replace(
            ctx, order=ctx.order[:1], dropped={ctx.order[1]: Dropped("strict", "cooldown")}
        )

    stages = (*STAGES[:-1], Stage(strict), STAGES[-1])
    told = (await why(Shelf(item(1), item(2), lexical={1: 9.0, 2: 3.0}), 2, stages=stages))[2]
    assert (told.stage, told.cause, told.rank) == ("strict", "cooldown", 2)
    assert told.score == pytest.approx(1 / 3)


async def test_so_many_are_told_and_no_more() -> None:
    assert len(await why(Shelf(item(1)), *range(100, 160))) == MAX_IDS


async def test_a_contexts_items_neighbours_and_omissions_are_told_apart() -> None:
    shown = RecalledItem(
        item(1), 0.9, Tier.FULL, "text", 3, (), Trust.REPOSITORY, Freshness.FRESH, also=(n(2),)
    )
    omission = Omission(n(3), 0.5, Dropped("format", "budget", 40.0, 12.0))
    block = Block("text", (shown,), (omission,), 3, 15, TokenCount("o200k_base", True))
    query = SearchQuery("cookies", why_not=(n(1), n(2), n(3), n(4)))
    ctx = SearchContext(query, analyse(query), 10, "minmax", Deadline.after(60.0))
    trail = (Snapshot("fetch", {n(i): 1 - i / 10 for i in range(1, 5)}),)
    ctx = replace(ctx, block=block, trail=trail, view=View((), "m", 2))
    told = await why_not(ctx, Deps(Shelf(), _unasked, SearchSettings()))
    assert (told[n(1)].cause, told[n(1)].rank) == ("included", 1)
    assert (told[n(2)].cause, told[n(2)].rank) == ("included", 1), "inside its neighbour's piece"
    assert told[n(3)] == Dropped("format", "budget", 40.0, 12.0, rank=3)
    assert (told[n(4)].stage, told[n(4)].cause, told[n(4)].rank) == ("format", "limit", 4)
    assert told[n(4)].bar == 0.9


async def _unasked() -> EmbeddingProvider:
    raise AssertionError("the trail says all of it")


def test_steps_follow_an_item_until_it_is_out() -> None:
    a, b = ItemId(UUID(int=1)), ItemId(UUID(int=2))
    trail = (
        Snapshot("fetch", {a: 0.9, b: 0.8}),
        Snapshot("score", {b: 0.9, a: 0.7}),
        Snapshot("format", {b: 0.9}),
    )
    assert steps(trail, b) == (
        Step("fetch", 2, 0.8),
        Step("score", 1, 0.9, 1),
        Step("format", 1, 0.9),
    )
    gone = steps(trail, a)
    assert [(s.stage, s.rank, s.moved) for s in gone] == [
        ("fetch", 1, 0),
        ("score", 2, -1),
        ("format", 0, 0),
    ]
    assert steps(trail, ItemId(UUID(int=3))) == ()


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**", "src/b/a.py", True),
        ("**/a.py", "a.py", True),
        ("**/a.py", "src/b/a.py", True),
        ("**/a.py", "src/ba.py", False),
        ("src/**/a.py", "src/a.py", True),
        ("a?.py", "ab.py", True),
        ("a?.py", "a/.py", False),
        ("*" * 39 + "b", "a" * 4000, False),
    ],
)
def test_globs_are_those_of_the_stores(glob: str, path: str, fits: bool) -> None:
    assert matches(glob, path) is fits
