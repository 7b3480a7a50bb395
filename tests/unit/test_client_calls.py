"""What a client refuses before it asks a server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from plait.client.calls import admin, knowledge, memory, recall
from plait.domain.errors import InvalidInput
from plait.domain.memory import NO_ID, MemoryEntry, MemoryFilter
from plait.domain.options import RecallOptions, SearchOptions
from plait.domain.recall import ItemVerdict
from plait.domain.values import Episode, Filter, ItemId, Outcome
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import episodes, items, memories


def test_a_mode_and_a_fusion_that_are_none_say_which_there_are() -> None:
    unknown: Any = "turbo"
    with pytest.raises(InvalidInput, match="'fast' or 'full'"):
        searched(SearchOptions(mode=unknown))
    with pytest.raises(InvalidInput, match="'minmax', 'rrf'"):
        searched(SearchOptions(fusion=unknown))
    assert searched(SearchOptions(mode="full")).mode == pb.SEARCH_MODE_FULL
    assert searched(SearchOptions()).fusion == pb.FUSION_UNSPECIFIED


def searched(options: SearchOptions) -> pb.SearchRequest:
    request = knowledge.search("x", None, 0, 0.0, options, None).request
    assert isinstance(request, pb.SearchRequest)
    return request


def recalled(options: RecallOptions) -> pb.RecallRequest:
    request = recall.recall("x", None, (), "", options, None).request
    assert isinstance(request, pb.RecallRequest)
    return request


@pytest.mark.parametrize("wrong", [None, {}, RecallOptions()])
def test_a_search_takes_options_of_a_search_alone(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="give SearchOptions"):
        searched(wrong)


@pytest.mark.parametrize("wrong", [None, {}, SearchOptions()])
def test_a_recall_takes_options_of_a_recall_alone(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="give RecallOptions"):
        recalled(wrong)


def test_options_of_another_type_are_refused_by_name() -> None:
    text: Any = "fts"
    number: Any = 5
    with pytest.raises(InvalidInput, match="a sequence of names"):
        searched(SearchOptions(stages_off=text))
    with pytest.raises(InvalidInput, match="a datetime, words for one, or None"):
        searched(SearchOptions(valid_as_of=number))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, 1e12])
def test_times_and_scores_that_can_be_none_are_refused(wrong: float) -> None:
    with pytest.raises(InvalidInput, match="cooldown_s is"):
        recalled(RecallOptions(cooldown_s=wrong))
    with pytest.raises(InvalidInput, match="min_score is"):
        recalled(RecallOptions(min_score=-abs(wrong) if wrong == wrong else -0.1))
    sent = recalled(RecallOptions(cooldown_s=0.0, min_score=1.0))
    assert sent.HasField("cooldown")
    assert sent.min_score == 1.0
    unset = recalled(RecallOptions())
    assert not unset.HasField("cooldown")
    assert not unset.HasField("min_score")


@pytest.mark.parametrize(
    "made",
    [
        lambda: episodes.outcome(Outcome(cast("Any", "meh"))),
        lambda: items.filter_(Filter(repos=("app",), collections=(cast("Any", "meh"),))),
        lambda: memories.filter_(MemoryFilter(repos=("app",), types=(cast("Any", "meh"),))),
        lambda: recall.report(
            UUID(int=1),
            [ItemVerdict(ItemId(UUID(int=2)), cast("Any", "meh"))],
            None,
            (),
            "",
            None,
        ),
        lambda: recall.check(RecallOptions(format="meh")),
    ],
)
def test_a_value_that_is_none_of_its_set_says_which_there_are(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match="is 'meh'; give one of '"):
        made()


@pytest.mark.parametrize(
    "made",
    [
        lambda: knowledge.append_request(Episode("", "app", Outcome("success", "ok\ud83d"), ())),
        lambda: memory.store_request(MemoryEntry(NO_ID, "app", "me", "ok\ud83d"), None, "request"),
        lambda: recall.report(UUID(int=1), (), Outcome("success"), ("ok\ud83d",), "", None),
        lambda: admin.rebuild(["ok\ud83d"], False, None),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_place(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match=r"U\+D83D at character 2"):
        made()
