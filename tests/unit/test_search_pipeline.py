"""The search pipeline over a store in memory: union, thresholds, degradation, deadlines, explanation."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest

from plait.domain.deadline import Deadline
from plait.domain.errors import (
    BadModelFile,
    DeadlineExceeded,
    EmbeddingModelMismatch,
    EmbeddingUnavailable,
    InvalidInput,
    StoreUnavailable,
)
from plait.domain.values import Candidate, Collection, Filter, Item, ItemId, Revision
from plait.ports import Around, ItemState, Place, Spot, Vectors, View
from plait.retrieval.search import Degraded, QueryKind, SearchAnswer, SearchQuery, SearchService
from plait.retrieval.search_context import Deps, SearchContext, Stage
from plait.retrieval.stages import STAGES
from plait.settings import SearchSettings, parse
from tests.processes import LIMIT_S


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


class Shelf:
    """A `SearchStore` of items whose rankings are given: what each arm says is the test's to choose."""

    def __init__(self, *items: Item, **rankings: dict[int, float]) -> None:
        self.items = {item.id: item for item in items}
        self.rankings = rankings
        self.revision = Revision(1, "r", 3, chunks=len(items), embedded=len(items))
        self.model = "m"
        self.delays: dict[str, float] = {}
        self.asked: list[str] = []
        self.fail = False
        self.is_large = False  # more than the static table is asked over

    async def view(self, where: Filter) -> View:
        return View((self.revision,), self.model, 2)

    async def _arm(self, name: str, k: int) -> list[Candidate]:
        self.asked.append(name)
        await asyncio.sleep(self.delays.get(name, 0.0))
        if self.fail:
            raise StoreUnavailable("gone")
        found = [Candidate(n(i), score) for i, score in self.rankings.get(name, {}).items()]
        return sorted(found, key=lambda c: (-c.score, c.id.int))[:k]

    async def lexical(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        k: int,
        weights: Mapping[str, float] | None = None,
    ) -> list[Candidate]:
        return await self._arm("lexical", k)

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        return await self._arm("semantic", k)

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate] | None:
        return None if self.is_large else await self._arm("alike", k)

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return {}

    async def missed(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        cosines = {n(i): cosine for i, cosine in self.rankings.get("missed", {}).items()}
        return {id_: cosines[id_] for id_ in ids if id_ in cosines}

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        return await self._arm("phrase", k)

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        return await self._arm("identifiers", k)

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        found = [self.items[id_] for id_ in ids if id_ in self.items]
        return {
            i.id: Place(i.repo, i.collection, i.path, i.symbol, i.kind, i.is_test) for i in found
        }

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        return {id_: self.items[id_] for id_ in ids if id_ in self.items}

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        return [[] for _ in spots]

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        return [None for _ in symbols]

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        return {}

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        return {}

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        return 0, {}

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        return {}


class Model:
    """An `EmbeddingProvider` that gives one vector, late or not at all."""

    model, dim = "m", 2

    def __init__(self, error: Exception | None = None, delay_s: float = 0.0) -> None:
        self.error = error
        self.delay_s = delay_s

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.ones((len(texts), 2), np.float32)

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        text.encode()
        await asyncio.sleep(self.delay_s)
        if self.error:
            raise self.error
        return np.array([1.0, 0.0], np.float32)

    async def close(self) -> None: ...


def item(number: int, path: str = "", symbol: str = "", kind: str = "function") -> Item:
    path = path or f"src/file{number}.py"
    when = datetime(2026, 1, 1, tzinfo=UTC)
    content = f"content {number}"
    return Item(n(number), Collection.FILES, "r", kind, path, symbol, "python", 1, 2, content, when)


ITEMS = [item(i) for i in range(8)]


def found(answer: SearchAnswer) -> list[int]:
    return [hit.item.id.int for hit in answer.hits]


def service(shelf: Shelf, model: Model | None = None, **settings: int) -> SearchService:
    return SearchService(
        shelf, model or Model(), parse(SearchSettings, {"timeout_s": LIMIT_S, **settings})
    )


async def test_an_item_of_one_arm_alone_enters_the_results() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0, 2: 3.0}, semantic={3: 0.8, 4: 0.1})
    answer = await service(shelf).search(SearchQuery("where are the cookies"))
    assert set(found(answer)) == {1, 2, 3, 4}
    assert found(answer)[:2] == [3, 1], "plain language trusts vectors more"
    assert answer.kind is QueryKind.PLAIN
    assert answer.degraded == ()
    assert answer.coverage == (8, 8)


async def test_what_both_arms_find_comes_first() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0, 2: 8.0}, semantic={3: 0.8, 2: 0.7, 4: 0.1})
    answer = await service(shelf).search(SearchQuery("where are the cookies"))
    assert found(answer)[0] == 2


@pytest.mark.parametrize(
    ("cosine", "has_all", "is_added"),
    [(0.95, False, True), (0.1, False, False), (0.95, True, False)],
)
async def test_what_words_found_and_the_arm_by_meaning_missed_is_as_near_as_it_is(
    cosine: float, has_all: bool, is_added: bool
) -> None:
    """Where that arm gave all that there is, it missed nothing."""
    near = {i: 0.9 - i / 100 for i in range(9 if has_all else 10)}
    items = [item(i) for i in range(13)]
    shelf = Shelf(*items, lexical={12: 9.0, 3: 3.0}, semantic=near, missed={12: cosine})
    everything = Filter(collections=tuple(Collection))
    query = SearchQuery("where are the cookies", everything, explain=True)
    answer = await service(shelf, candidates=10).search(query)
    arms = {hit.item.id.int: hit.arms for hit in answer.hits}
    assert ("semantic" in arms[12]) is is_added
    assert (found(answer)[0] == 12) is is_added


@pytest.mark.parametrize("fusion", ["minmax", "rrf"])
async def test_scores_are_in_bounds_descending_and_cut_by_min_score(fusion: str) -> None:
    shelf = Shelf(*ITEMS, lexical={i: 9.0 - i for i in range(5)}, semantic={3: 0.8, 4: 0.1})
    query = SearchQuery("where are the cookies", fusion="rrf" if fusion == "rrf" else "minmax")
    answer = await service(shelf).search(query)
    scores = [hit.score for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    bar = scores[1]
    cut = await service(shelf).search(dataclasses.replace(query, min_score=bar))
    assert [hit.score for hit in cut.hits] == [s for s in scores if s >= bar]


async def test_k_limits_and_defaults_to_the_settings() -> None:
    shelf = Shelf(*ITEMS, lexical={i: 9.0 - i for i in range(8)})
    assert len((await service(shelf, k=3).search(SearchQuery("lost socket"))).hits) == 3
    assert len((await service(shelf, k=3).search(SearchQuery("lost socket", k=5))).hits) == 5


async def test_the_same_query_gives_the_same_answer() -> None:
    shelf = Shelf(
        *ITEMS, lexical=dict.fromkeys(range(8), 1.0), semantic=dict.fromkeys(range(8), 0.5)
    )
    answers = [found(await service(shelf).search(SearchQuery("same here"))) for _ in range(3)]
    assert answers == [list(range(8))] * 3


async def test_a_definition_beats_its_uses() -> None:
    uses = [item(i, symbol=f"pkg.use{i}") for i in range(1, 4)]
    shelf = Shelf(
        *uses,
        item(9, symbol="pkg.api.Session.get", kind="method"),
        lexical={1: 9.0, 2: 8.5, 9: 8.0},
        semantic={1: 0.9, 3: 0.85, 9: 0.8, 2: 0.1},
    )
    answer = await service(shelf).search(SearchQuery("Session.get ignores the timeout"))
    assert found(answer)[0] == 9
    assert answer.kind is QueryKind.IDENTIFIERS


@pytest.mark.parametrize("path", ["tests/test_http.py", "docs/http.md", "examples/http.py"])
async def test_code_comes_before_tests_texts_and_examples_unless_asked_for(path: str) -> None:
    shelf = Shelf(item(1, path), item(2, "src/http.py"), lexical={1: 9.0, 2: 8.0, 3: 1.0})
    assert found(await service(shelf).search(SearchQuery("retry on a lost connection"))) == [2, 1]
    asked = "tests docs examples of retry"
    assert found(await service(shelf).search(SearchQuery(asked))) == [1, 2]


async def test_agents_items_are_ranked_by_text_alone() -> None:
    note = dataclasses.replace(item(1, "tests/x.py"), collection=Collection.PLANS)
    shelf = Shelf(note, item(2), lexical={1: 9.0, 2: 8.9, 3: 0.1})
    answer = await service(shelf).search(SearchQuery("retry the plan", explain=True))
    (hit,) = [hit for hit in answer.hits if hit.item.id == n(1)]
    assert not [key for key in hit.arms if key.startswith(("factor", "bonus.name"))]


async def test_quotes_ask_for_the_phrase_and_short_names_for_similar_ones() -> None:
    shelf = Shelf(*ITEMS, phrase={5: 0.1}, identifiers={6: 0.6})
    await service(shelf).search(SearchQuery('"connection reset by peer"'))
    assert sorted(shelf.asked) == ["lexical", "phrase", "semantic"]
    shelf.asked.clear()
    answer = await service(shelf).search(SearchQuery("get_usr"))
    assert sorted(shelf.asked) == ["identifiers", "lexical", "semantic"]
    assert found(answer) == [6]


async def test_explain_tells_each_arm_s_part() -> None:
    shelf = Shelf(
        item(1, "tests/test_a.py"),
        *ITEMS[2:4],
        lexical={1: 9.0, 2: 4.5},
        semantic={2: 0.9, 3: 0.5, 1: 0.3},
    )
    answer = await service(shelf).search(SearchQuery("a lost connection", explain=True))
    arms = {hit.item.id.int: hit.arms for hit in answer.hits}
    assert arms[1]["lexical"] == 9.0
    assert arms[1]["lexical.rank"] == 1.0
    assert arms[2]["lexical.scaled"] == pytest.approx(0.5)
    assert arms[2]["semantic.weight"] == pytest.approx(0.6)
    assert arms[1]["factor.test"] < 1.0
    assert "lexical" not in arms[3]
    ran = [t.stage for t in answer.timings]
    assert ran == [s.name for s in STAGES if s.name in ran], "timed in the tuple's order"
    assert {"resolve", "strategy", "semantic", "fts", "fetch", "score", "format"} <= set(ran)
    plain = await service(shelf).search(SearchQuery("a lost connection"))
    assert set(plain.hits[0].arms) <= {"lexical", "semantic"}


# -- parts that are missing -----------------------------------------------------------------------


async def test_without_vectors_the_text_answers_and_says_so() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0})
    shelf.model = ""
    answer = await service(shelf).search(SearchQuery("a lost connection"))
    assert found(answer) == [1]
    assert answer.degraded == (Degraded("semantic", "no_vectors"),)


async def test_vectors_that_still_fill_in_are_told() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0}, semantic={2: 0.5})
    shelf.revision = dataclasses.replace(shelf.revision, embedded=3)
    answer = await service(shelf).search(SearchQuery("a lost connection"))
    assert set(found(answer)) == {1, 2}
    assert answer.degraded == (Degraded("semantic", "coverage"),)
    assert answer.coverage == (3, 8)


async def test_a_repository_too_large_for_the_table_is_told() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0}, semantic={2: 0.5})
    shelf.is_large = True
    deps = Deps(shelf, service(shelf)._deps.provider, SearchSettings(timeout_s=LIMIT_S))
    for tiers, embedded, causes in (
        ("both", 3, ["too_many_chunks", "coverage"]),
        ("both", 8, []),
        ("static", 0, ["too_many_chunks"]),
        ("model", 3, ["coverage"]),
    ):
        shelf.revision = dataclasses.replace(shelf.revision, embedded=embedded)
        over = dataclasses.replace(deps, tiers=tiers)  # type: ignore[arg-type]
        answer = await SearchService.over(over).search(SearchQuery("a lost connection"))
        assert answer.degraded == tuple(Degraded("semantic", cause) for cause in causes)
        assert 1 in found(answer)


async def test_what_a_query_came_upon_is_told_while_vectors_are_lacking() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0, 4: 2.0}, semantic={2: 0.5})
    told: list[tuple[str, list[int]]] = []
    deps = Deps(
        shelf,
        service(shelf)._deps.provider,
        SearchSettings(timeout_s=LIMIT_S),
        touch=lambda repo, ids: told.append((repo, [id_.int for id_ in ids])),
    )
    query = SearchQuery("a lost connection")
    await SearchService.over(deps).search(query)
    assert told == []
    shelf.revision = dataclasses.replace(shelf.revision, embedded=7)
    answer = await SearchService.over(deps).search(query)
    assert [(repo, sorted(ids)) for repo, ids in told] == [("r", [1, 2, 4])]
    assert found(answer)[0] == told[0][1][0]


@pytest.mark.parametrize(
    "error", [EmbeddingUnavailable("down"), BadModelFile("no file")], ids=lambda e: e.reason
)
async def test_a_provider_that_is_down_costs_its_arm_only(error: Exception) -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0}, semantic={2: 0.5})
    answer = await service(shelf, Model(error)).search(SearchQuery("a lost connection"))
    assert found(answer) == [1]
    assert answer.degraded == (Degraded("semantic", getattr(error, "reason", "")),)


async def test_a_provider_that_cannot_be_opened_costs_its_arm_only() -> None:
    async def opener() -> Model:
        raise EmbeddingUnavailable("down")

    shelf = Shelf(*ITEMS, lexical={1: 9.0})
    search = SearchService(shelf, opener, SearchSettings(timeout_s=LIMIT_S))
    answer = await search.search(SearchQuery("a lost connection"))
    assert found(answer) == [1]
    assert str(answer.degraded[0]) == "semantic: EMBEDDING_UNAVAILABLE"


async def test_another_model_than_the_index_s_is_refused() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0})
    shelf.model = "another"
    with pytest.raises(EmbeddingModelMismatch, match="another"):
        await service(shelf).search(SearchQuery("a lost connection"))


async def test_a_store_that_is_gone_ends_the_search() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0})
    shelf.fail = True
    with pytest.raises(StoreUnavailable):
        await service(shelf).search(SearchQuery("a lost connection"))


class Halted(Deadline):
    """One whose time does not go by: what comes after a late arm takes a busy machine longer than the
    little that is kept back for it."""

    @property
    def left_s(self) -> float:
        return self.limit_s


async def test_a_late_arm_is_shed_at_the_deadline() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0}, semantic={2: 0.5})
    query = SearchQuery("a lost connection", deadline=Halted(0.0, 2.0))
    answer = await service(shelf, Model(delay_s=300.0)).search(query)
    assert found(answer) == [1]
    assert answer.degraded == (Degraded("semantic", "deadline"),)


async def test_no_arm_in_time_is_an_error() -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0})
    shelf.delays = {"lexical": 30.0, "semantic": 30.0, "identifiers": 30.0, "phrase": 30.0}
    for text in ("a lost connection", '"a lost connection"', "get_user"):
        with pytest.raises(DeadlineExceeded):
            await service(shelf).search(SearchQuery(text, deadline=Deadline.after(0.05)))
    with pytest.raises(DeadlineExceeded):
        await service(shelf).search(SearchQuery("a b", deadline=Deadline.after(0.0)))


async def test_nothing_found_is_an_empty_answer() -> None:
    assert (await service(Shelf()).search(SearchQuery("a lost connection"))).hits == ()


@pytest.mark.parametrize(
    "text", ["?!…", "🎉🎉", "\ud800 half", "日本語の検索", "x" * 8192, "% _ \\ ' \""]
)
async def test_odd_queries_are_answered(text: str) -> None:
    shelf = Shelf(*ITEMS, lexical={1: 9.0}, semantic={2: 0.5})
    await service(shelf).search(SearchQuery(text))


async def test_items_that_vanish_between_the_arms_and_the_fetch_are_left_out() -> None:
    shelf = Shelf(ITEMS[1], lexical={1: 9.0, 7: 12.0})
    assert found(await service(shelf).search(SearchQuery("a lost connection"))) == [1]


async def test_a_bad_query_is_refused_before_anything_is_asked() -> None:
    shelf = Shelf(*ITEMS)
    with pytest.raises(InvalidInput):
        await service(shelf).search(SearchQuery(" "))
    assert shelf.asked == []


async def test_of_two_arms_that_fail_none_is_left_unseen() -> None:
    """asyncio tells of a task whose error nobody asked for."""
    unseen: list[object] = []
    loop = asyncio.get_running_loop()
    gc.collect()  # what other tests left on the session's loop is told before we listen
    await asyncio.sleep(0)
    loop.set_exception_handler(lambda _, told: unseen.append(told))

    async def one(ctx: SearchContext, deps: Deps) -> SearchContext:
        raise StoreUnavailable("gone")

    async def other(ctx: SearchContext, deps: Deps) -> SearchContext:
        raise StoreUnavailable("gone too")

    stages = [*STAGES[:3], Stage(one, arm=True), Stage(other, arm=True), *STAGES[6:]]
    search = SearchService(Shelf(*ITEMS), Model(), SearchSettings(timeout_s=LIMIT_S), stages)
    try:
        with pytest.raises(StoreUnavailable):
            await search.search(SearchQuery("a lost connection"))
        gc.collect()
        await asyncio.sleep(0)
    finally:
        loop.set_exception_handler(None)
    assert unseen == []
