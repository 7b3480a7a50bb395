"""What a client refuses before it asks a server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from plait.client.calls import admin, knowledge, memory, recall
from plait.client.calls.knowledge import fusion_of, mode_of
from plait.domain.errors import InvalidInput
from plait.domain.memory import MemoryEntry, MemoryFilter
from plait.domain.recall import ItemVerdict
from plait.domain.values import Episode, Filter, ItemId, Outcome
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import memory_messages, messages


def test_a_mode_and_a_fusion_that_are_none_say_which_there_are() -> None:
    unknown: Any = "turbo"
    with pytest.raises(InvalidInput, match="'fast' or 'full'"):
        mode_of(unknown)
    with pytest.raises(InvalidInput, match="'minmax', 'rrf'"):
        fusion_of(unknown)
    assert mode_of("full") == pb.SEARCH_MODE_FULL
    assert fusion_of(None) == pb.FUSION_UNSPECIFIED


def options(cooldown_s: float | None, min_score: float | None) -> Any:
    return recall.options("markdown", 0, 0, False, "", "", cooldown_s, min_score, True)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, 1e12])
def test_times_and_scores_that_can_be_none_are_refused(wrong: float) -> None:
    with pytest.raises(InvalidInput, match="cooldown_s is"):
        options(wrong, None)
    with pytest.raises(InvalidInput, match="min_score is"):
        options(None, -abs(wrong) if wrong == wrong else -0.1)
    assert (options(0.0, 1.0).cooldown_s, options(0.0, 1.0).min_score) == (0.0, 1.0)
    assert (options(None, None).cooldown_s, options(None, None).min_score) == (-1.0, -1.0)


@pytest.mark.parametrize(
    "made",
    [
        lambda: messages.outcome(Outcome(cast("Any", "meh"))),
        lambda: messages.filter_(Filter(repos=("app",), collections=(cast("Any", "meh"),))),
        lambda: memory_messages.filter_(MemoryFilter(repos=("app",), types=(cast("Any", "meh"),))),
        lambda: recall.report(
            UUID(int=1),
            [ItemVerdict(ItemId(UUID(int=2)), cast("Any", "meh"))],
            None,
            (),
            "",
            None,
        ),
        lambda: recall.options(cast("Any", "meh"), 0, 0, False, "", "", None, None, True),
    ],
)
def test_a_value_that_is_none_of_its_set_says_which_there_are(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match="is 'meh'; give one of '"):
        made()


@pytest.mark.parametrize(
    "made",
    [
        lambda: knowledge.append_request(Episode("", "app", Outcome("success", "ok\ud83d"), ())),
        lambda: memory.store_request(
            MemoryEntry(memory_messages.NO_ID, "app", "me", "ok\ud83d"), None, "request"
        ),
        lambda: recall.report(UUID(int=1), (), Outcome("success"), ("ok\ud83d",), "", None),
        lambda: admin.rebuild(["ok\ud83d"], False, None),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_place(made: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match=r"U\+D83D at character 2"):
        made()
