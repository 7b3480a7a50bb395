"""Numbers that few of the agents' items hold, and what a half-filled index does to weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.ports import Place, View
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.query.strategy import choose
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import SearchContext
from plait.retrieval.stages.fts import fts
from plait.settings import SearchSettings


class Words:
    """A store that has so many items with a number, and knows what it was asked for."""

    def __init__(self, holding: int) -> None:
        self.holding = holding
        self.asked: list[tuple[tuple[str, ...], tuple[Collection, ...]]] = []

    async def lexical(
        self, view: View, terms: Sequence[str], where: Filter, k: int, weights: Any = None
    ) -> list[Candidate]:
        self.asked.append((tuple(terms), where.collections))
        return [Candidate(ItemId(UUID(int=i + 1)), 1.0) for i in range(min(k, self.holding))]

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        return {}


async def asked(text: str, store: Words, *collections: Collection) -> SearchContext:
    query = SearchQuery(text, Filter(collections=collections))
    analysis = analyse(query)
    ctx = SearchContext(query, analysis, 10, "minmax", Deadline.after(60.0))
    ctx = replace(ctx, view=View((), "", 0), strategy=choose(analysis, Anchors()))
    deps: Any = SimpleNamespace(store=store, settings=SearchSettings())
    return await fts(ctx, deps)


async def test_a_number_that_few_items_hold_is_an_arm_over_what_agents_wrote() -> None:
    store = Words(holding=1)
    both = (Collection.FILES, Collection.REFLECTIONS)
    ctx = await asked("reflection on run 1234", store, *both)
    assert len(ctx.rankings["exact"]) == 1
    assert ctx.strategy.weights["exact"] == DEFAULT.arms.exact
    assert (("1234",), (Collection.REFLECTIONS,)) in store.asked
    assert any("1234" in terms and where == both for terms, where in store.asked)


async def test_a_number_that_many_hold_tells_nothing() -> None:
    ctx = await asked(
        "what happened in 2026", Words(DEFAULT.arms.most_exact + 1), Collection.MEMORIES
    )
    assert ctx.rankings["exact"] == []


@pytest.mark.parametrize(
    ("text", "collections"),
    [
        ("run 1234", [Collection.FILES]),  # code is looked for by its words
        ("run it in 7 days", [Collection.MEMORIES]),
        ("no number at all", [Collection.MEMORIES]),
    ],
)
async def test_it_is_not_asked_for_code_or_without_a_number(
    text: str, collections: list[Collection]
) -> None:
    store = Words(holding=1)
    ctx = await asked(text, store, *collections)
    assert "exact" not in ctx.rankings
    assert len(store.asked) == 1


def test_vectors_of_few_chunks_weigh_less() -> None:
    asked = analyse(SearchQuery("where are sessions kept"))
    whole, none = (choose(asked, Anchors(), coverage=c).weights for c in (1.0, 0.0))
    assert none["semantic"] == pytest.approx(DEFAULT.arms.least_semantic * whole["semantic"])
    assert none["lexical"] + none["semantic"] == pytest.approx(1.0)
