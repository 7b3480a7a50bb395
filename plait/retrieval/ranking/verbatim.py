"""Texts that are asked for by their own words: who pastes a passage wants what it is from. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import ItemId
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories


def passage(text: str) -> str:
    """`text` as it is looked for, with one blank between words; "" where it is too short for a passage."""
    words = " ".join(text.split())
    return (
        words
        if len(words)
        >= (WEIGHTS.passage_question_chars if words.endswith("?") else WEIGHTS.passage_chars)
        else ""
    )


def passage_factors(quoted: str, texts: Mapping[ItemId, str]) -> dict[ItemId, float]:
    """What multiplies scores; 1.0 is left out. `quoted`: of `passage`."""
    if not quoted:
        return {}
    return {
        id_: WEIGHTS.verbatim for id_, text in texts.items() if quoted in " ".join(text.split())
    }
