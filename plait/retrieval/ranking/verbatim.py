"""Texts that are asked for by their own words: who pastes a passage wants what it is from. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.values import ItemId

# A passage is at least so long; a question, which was asked in these words before but not answered by them, is one
# from the second length on.
MIN_CHARS = 40
MIN_QUESTION = 100
# What multiplies the score of a text that holds all of the passage. Texts that share most of its lines, outputs of
# one command on one file for example, are told apart by this alone. Chosen by hand.
HOLDS = 3.0


def passage(text: str) -> str:
    """`text` as it is looked for, with one blank between words; "" where it is too short for a passage."""
    said = " ".join(text.split())
    return said if len(said) >= (MIN_QUESTION if said.endswith("?") else MIN_CHARS) else ""


def factors(wanted: str, texts: Mapping[ItemId, str]) -> dict[ItemId, float]:
    """What multiplies scores; 1.0 is left out. `wanted`: of `passage`."""
    if not wanted:
        return {}
    return {id_: HOLDS for id_, text in texts.items() if wanted in " ".join(text.split())}
