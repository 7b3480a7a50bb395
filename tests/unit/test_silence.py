"""When nothing answers: what speaks for an answer, and what becomes of a recall that has nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions
from plait.domain.values import Candidate, Collection, Filter, ItemId, Revision
from plait.ports import Place, SearchStore, View
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.strategy import Kind, Strategy
from plait.retrieval.ranking import silence
from plait.retrieval.ranking.silence import Features, chance, features
from plait.retrieval.search_context import Deps, SearchContext
from plait.retrieval.stages.score import score
from plait.settings import RecallSettings, SearchSettings

BAR = RecallSettings().silence


def ranking(*scores: float, first: int = 1) -> list[Candidate]:
    return [Candidate(ItemId(UUID(int=first + i)), s) for i, s in enumerate(scores)]


NEAR = ranking(0.72, *(0.3 - 0.001 * i for i in range(100)))
FAR = ranking(0.16, *(0.15 - 0.001 * i for i in range(100)))
KNOWN = {"retry": 12, "client": 40}
UNKNOWN = {"sommelier": 0, "vineyard": 0}


def test_words_that_are_there_and_a_near_meaning_speak_for_an_answer() -> None:
    sure = features({"lexical": ranking(8.0, 3.0), "semantic": NEAR}, 1_000, KNOWN, calibrated=True)
    assert sure.coverage > 0.9
    assert (sure.unseen, sure.cosine) == (0.0, 0.72)
    assert chance(sure) > 0.8


@pytest.mark.parametrize("calibrated", [True, False])
def test_words_that_are_nowhere_and_no_near_meaning_speak_against(calibrated: bool) -> None:
    poor = features({"lexical": [], "semantic": FAR}, 1_000, UNKNOWN, calibrated=calibrated)
    assert (poor.coverage, poor.unseen) == (0.0, 1.0)
    assert chance(poor) < BAR


def test_an_index_without_vectors_goes_by_words() -> None:
    sure = features({"lexical": ranking(8.0, 3.0)}, 1_000, KNOWN, calibrated=False)
    poor = features({"lexical": []}, 1_000, UNKNOWN | {"corkscrew": 0}, calibrated=False)
    assert sure.cosine is None
    assert chance(poor) < BAR < chance(sure)


def test_a_paraphrase_without_common_words_is_not_silent() -> None:
    said = features({"lexical": [], "semantic": NEAR}, 1_000, UNKNOWN, calibrated=True)
    assert chance(said) > BAR


def test_without_meanings_or_their_scale_words_decide() -> None:
    by_words = features({"lexical": ranking(8.0)}, 1_000, KNOWN, calibrated=False)
    other_model = features(
        {"lexical": ranking(8.0), "semantic": NEAR}, 1_000, KNOWN, calibrated=False
    )
    assert other_model == by_words


def test_more_of_anything_that_speaks_for_it_makes_an_answer_likelier() -> None:
    for weights in (silence.WEIGHTS.with_cosine, silence.WEIGHTS.words_alone):
        assert weights.cosine >= 0.0
        assert weights.covered >= 0.0
        assert weights.unseen < 0.0
    assert chance(Features(0.9, 4, 0.6)) > chance(Features(0.1, 4, 0.1))


class Store:
    def __init__(self, documents: int, holding: dict[str, int]) -> None:
        self.told = (documents, holding)

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        return self.told


def recall(text: str, rankings: dict[str, list[Candidate]]) -> SearchContext:
    query = SearchQuery(text)
    order = list(dict.fromkeys(c.id for r in rankings.values() for c in r))
    place = Place("r", Collection.FILES, "a.py", "a.f", "function", False)
    return SearchContext(
        query,
        analyse(query),
        10,
        "minmax",
        Deadline.after(60.0),
        options=PackingOptions(),
        view=View((Revision(1, "r", 1),), "local:all-MiniLM-L6-v2-int8", 384),
        strategy=Strategy(weights={"semantic": 0.6, "lexical": 0.4}),
        rankings=rankings,
        fused={id_: 1.0 - i / 1e3 for i, id_ in enumerate(order)},
        order=order,
        places=dict.fromkeys(order, place),
    )


def deps(documents: int, holding: dict[str, int]) -> Deps:
    async def no_provider() -> object:
        raise AssertionError("a model was opened")

    store = cast(SearchStore, Store(documents, holding))
    return Deps(store, no_provider, SearchSettings())  # type: ignore[arg-type]


NOTHING = recall("which sommelier owns the vineyard", {"lexical": [], "semantic": FAR})


async def test_a_recall_that_has_nothing_returns_nothing_and_says_by_how_much() -> None:
    ctx = await score(NOTHING, deps(1_000, UNKNOWN))
    assert list(ctx.order) == []
    assert len(ctx.dropped) == len(FAR)
    why = ctx.dropped[FAR[0].id]
    assert (why.stage, why.cause, why.bar) == ("score", "silence", BAR)
    assert why.score < why.bar


async def test_a_search_is_never_silent() -> None:
    ctx = await score(replace(NOTHING, options=None), deps(1_000, UNKNOWN))
    assert len(ctx.order) == len(FAR)
    off = replace(deps(1_000, UNKNOWN), recall=RecallSettings(silence=0.0))
    assert len((await score(NOTHING, off)).order) == len(FAR)


@pytest.mark.parametrize("arm", ["anchors", "identifiers", "phrase", "exact"])
async def test_what_names_a_place_that_is_there_is_answered(arm: str) -> None:
    named = replace(NOTHING, rankings={**NOTHING.rankings, arm: ranking(1.0)})
    assert (await score(named, deps(1_000, UNKNOWN))).order


async def test_a_name_that_is_only_like_one_there_names_nothing() -> None:
    alike = replace(NOTHING, rankings={**NOTHING.rankings, "identifiers": ranking(0.5)})
    assert not (await score(alike, deps(1_000, UNKNOWN))).order


@pytest.mark.parametrize("kind", [Kind.DIFF, Kind.TRACE])
async def test_traces_and_diffs_of_other_code_are_not_answered_by_far_ones(kind: Kind) -> None:
    other = replace(NOTHING, strategy=replace(NOTHING.strategy, kind=kind))
    assert not (await score(other, deps(1_000, UNKNOWN))).order
    own = replace(other, rankings={**other.rankings, "anchors": ranking(1.0)})
    assert (await score(own, deps(1_000, UNKNOWN))).order
