"""What a client refuses before it asks a server."""

from __future__ import annotations

import math
from typing import Any

import pytest

from plait.client import recall_calls
from plait.client.calls import fusion_of, mode_of
from plait.domain.errors import InvalidInput
from plait.v1 import knowledge_service_pb2 as pb


def test_a_mode_and_a_fusion_that_are_none_say_which_there_are() -> None:
    unknown: Any = "turbo"
    with pytest.raises(InvalidInput, match="'fast' or 'full'"):
        mode_of(unknown)
    with pytest.raises(InvalidInput, match="'minmax', 'rrf'"):
        fusion_of(unknown)
    assert mode_of("full") == pb.SEARCH_MODE_FULL
    assert fusion_of(None) == pb.FUSION_UNSPECIFIED


def options(cooldown_s: float | None, min_score: float | None) -> Any:
    return recall_calls.options("markdown", 0, 0, "", "", cooldown_s, min_score, True)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1.0, 1e12])
def test_times_and_scores_that_can_be_none_are_refused(wrong: float) -> None:
    with pytest.raises(InvalidInput, match="cooldown_s is"):
        options(wrong, None)
    with pytest.raises(InvalidInput, match="min_score is"):
        options(None, -abs(wrong) if wrong == wrong else -0.1)
    assert (options(0.0, 1.0).cooldown_s, options(0.0, 1.0).min_score) == (0.0, 1.0)
    assert (options(None, None).cooldown_s, options(None, None).min_score) == (-1.0, -1.0)
