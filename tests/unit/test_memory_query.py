"""QueryMemories over a store of a few notes in memory: the stages of a search, and what is not theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest

from plait.domain.errors import EmbeddingUnavailable, InvalidInput, ScopeMissing
from plait.domain.memory import (
    NOW,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryQueryOptions,
    MemorySource,
    MemoryType,
)
from plait.domain.values import Candidate, Collection, Filter, ItemId, Revision
from plait.ports import EmbeddingProvider, ItemState, MemoryStore, Place, SearchStore, View
from plait.retrieval.memory_query import OVER_FETCH, MemoryQueryService, in_memories
from plait.retrieval.search_context import Degraded, Deps
from plait.settings import SearchSettings

HERE = MemoryFilter(repos=("r",))
WORDS = ("the zebra sleeps", "a zebra eats grass", "cats eat fish")
UNIT = np.array([0.0, 1.0], np.float32)


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


class Notes:
    """Both ports over `WORDS`. `ks`: how many candidates were asked for; `wheres`: with which filters."""

    def __init__(self, *, model: str = "m", waiting: bool = False) -> None:
        self.model, self.waiting = model, waiting
        self.wheres: list[Filter] = []
        self.ks: list[int] = []

    async def view(self, where: Filter) -> View:
        self.wheres.append(where)
        return View((Revision(1, "r", 1, chunks=9, embedded=4),), self.model, 2)

    async def lexical(
        self, view: View, terms: Sequence[str], where: Filter, k: int, weights: Any = None
    ) -> list[Candidate]:
        self.ks.append(k)
        scores = {i: sum(term in text for term in terms) for i, text in enumerate(WORDS)}
        found = sorted((i for i in scores if scores[i]), key=lambda i: -scores[i])
        return [Candidate(n(i), float(scores[i])) for i in found]

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        return []

    async def nearest(self, view: View, vector: Any, where: Filter, k: int) -> list[Candidate]:
        return [Candidate(n(2), 0.9), Candidate(n(0), 0.1)]

    async def places(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, Place]:
        place = Place("r", Collection.MEMORIES, "", "", "memory", False, type="semantic")
        return dict.fromkeys(ids, place)

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, ItemState]:
        return dict.fromkeys(ids, ItemState(anchored=False))

    async def versions(
        self, tenant: str, ids: Sequence[ItemId], as_of: AsOf = NOW
    ) -> Mapping[ItemId, MemoryEntry]:
        return {i: MemoryEntry(MemoryId(i), "r", "a", WORDS[i.int]) for i in ids}

    async def unembedded(self, options: MemoryQueryOptions) -> bool:
        return self.waiting


def service(notes: Notes, *, opens: bool = False) -> MemoryQueryService:
    async def provider() -> EmbeddingProvider:
        assert opens, "a model was opened"
        raise EmbeddingUnavailable("away")

    deps = Deps(cast(SearchStore, notes), provider, SearchSettings())
    return MemoryQueryService(deps, cast(MemoryStore, notes))


async def test_words_and_a_given_vector_are_united_without_a_model() -> None:
    answer = await service(Notes()).query("zebra", UNIT, MemoryQueryOptions(HERE))
    assert {m.entry.content for m in answer.matches} == set(WORDS)
    arms = {m.entry.content: set(m.arms) for m in answer.matches}
    assert arms[WORDS[0]] == {"lexical", "semantic"}
    assert arms[WORDS[2]] == {"semantic"}
    scores = [m.score for m in answer.matches]
    assert scores == sorted(scores, reverse=True)
    assert answer.degraded == ()


async def test_a_vector_needs_no_text() -> None:
    answer = await service(Notes()).query(" ", UNIT, MemoryQueryOptions(HERE))
    assert answer.matches[0].entry.content == WORDS[2]


async def test_what_is_below_the_bar_or_too_much_is_left_out() -> None:
    many = await service(Notes()).query("zebra", UNIT, MemoryQueryOptions(HERE))
    bar = many.matches[1].score
    few = await service(Notes()).query("zebra", UNIT, MemoryQueryOptions(HERE, min_score=bar))
    assert few.matches == many.matches[:2]
    one = await service(Notes()).query("zebra", UNIT, MemoryQueryOptions(HERE, top_k=1))
    assert one.matches == many.matches[:1]


async def test_arms_bring_more_where_more_is_wanted() -> None:
    for top_k, asked in ((10, SearchSettings().candidates), (200, 200 * OVER_FETCH)):
        notes = Notes()
        await service(notes).query("zebra", UNIT, MemoryQueryOptions(HERE, top_k=top_k))
        assert notes.ks == [asked]


@pytest.mark.parametrize(
    ("notes", "vector", "degraded"),
    [
        (Notes(), None, (Degraded("semantic", "EMBEDDING_UNAVAILABLE"),)),
        (Notes(waiting=True), None, (Degraded("semantic", "EMBEDDING_UNAVAILABLE"),)),
        (Notes(waiting=True), UNIT, (Degraded("semantic", "coverage"),)),
        # Code without vectors is none of a memory query's business, and an empty store lacks nothing.
        (Notes(), UNIT, ()),
        (Notes(model=""), UNIT, ()),
        (Notes(model="", waiting=True), UNIT, (Degraded("semantic", "coverage"),)),
    ],
)
async def test_what_an_answer_lacks_is_named(
    notes: Notes, vector: Any, degraded: tuple[Degraded, ...]
) -> None:
    answer = await service(notes, opens=vector is None).query(
        "zebra", vector, MemoryQueryOptions(HERE)
    )
    assert answer.degraded == degraded
    assert answer.matches[0].entry.content in WORDS[:2]


async def test_only_memories_are_read_as_the_filter_narrows_them() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    where = replace(
        HERE, agent_id="a", sources=(MemorySource.USER,), types=(MemoryType.SEMANTIC,),
        importance_min=0.5, created_after=at, tags_all=("x",),
    )  # fmt: skip
    notes = Notes()
    await service(notes).query("zebra", UNIT, MemoryQueryOptions(where, as_of=AsOf(valid=at)))
    assert notes.wheres == [in_memories(where, AsOf(valid=at))]
    (asked,) = notes.wheres
    assert asked.collections == (Collection.MEMORIES,)
    assert (asked.agent_id, asked.sources, asked.types) == ("a", where.sources, where.types)
    assert (asked.importance_min, asked.created_after, asked.tags_all) == (0.5, at, ("x",))
    assert asked.as_of.valid == at


@pytest.mark.parametrize(
    ("text", "vector", "options", "error"),
    [
        (" ", None, MemoryQueryOptions(HERE), InvalidInput),
        ("x", None, MemoryQueryOptions(HERE, top_k=0), InvalidInput),
        ("x", None, MemoryQueryOptions(HERE, top_k=201), InvalidInput),
        ("x", None, MemoryQueryOptions(HERE, min_score=1.5), InvalidInput),
        ("x" * 9_000, None, MemoryQueryOptions(HERE), InvalidInput),
        ("x", None, MemoryQueryOptions(MemoryFilter()), ScopeMissing),
        ("x", None, MemoryQueryOptions(replace(HERE, all_repos=True)), InvalidInput),
    ],
)
async def test_queries_that_make_no_sense(
    text: str, vector: Any, options: MemoryQueryOptions, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await service(Notes()).query(text, vector, options)
