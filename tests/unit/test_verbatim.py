"""Who pastes a passage wants the text that it is from."""

from __future__ import annotations

from uuid import UUID

import pytest

from plait.domain.values import ItemId
from plait.retrieval.ranking import verbatim

A, B = ItemId(UUID(int=1)), ItemId(UUID(int=2))
PASSAGE = "the cache of part 7 was cold because nobody\n  had warmed it before the run"


def test_the_text_that_holds_all_of_it_counts_more() -> None:
    texts = {A: f"Then I saw:\n{PASSAGE}\nand went on.", B: PASSAGE.replace("7", "8")}
    assert verbatim.passage_factors(verbatim.passage(PASSAGE), texts) == {
        A: verbatim.WEIGHTS.verbatim
    }
    # However it is broken into lines.
    again = " ".join(PASSAGE.split())
    assert verbatim.passage_factors(verbatim.passage(again), texts) == {
        A: verbatim.WEIGHTS.verbatim
    }


@pytest.mark.parametrize(
    "text", ["", "cold cache", "why was the cache of part 7 cold before the run?"]
)
def test_what_is_no_passage_changes_nothing(text: str) -> None:
    assert verbatim.passage(text) == ""
    assert verbatim.passage_factors(verbatim.passage(text), {A: f"{text} and more"}) == {}
