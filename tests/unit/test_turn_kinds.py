"""What a turn is by its words: a question, an announcement."""

from __future__ import annotations

import pytest

from plait.text.turn_kinds import MAX_BYTES, announces_next_step, is_question

QUESTIONS = {
    "Kyle: where did you go on Friday?": True,
    "really?!": True,
    "東京?": True,
    "what is `a/b`? …": True,
    "I went home. And you?": False,
    "is it v1.2 that fails?": False,
    "it is so": False,
    "": False,
    "where?\nnowhere": False,
    "what " * 100 + "?": False,
    "?" * MAX_BYTES: True,
    "ä" * (MAX_BYTES // 2) + "?": False,  # bytes count, not characters
}
ANNOUNCEMENTS = {
    "Let me look at `src/app.py` first.": True,
    "OK, now I'll run the tests of v1.2": True,
    "I’m going to write a small script…": True,
    "There is an old flag. Shall I keep it?": True,
    "I'll keep thirty seconds, since a crash would block the job.": False,
    "I won't touch the format.": False,
    "I'll see why it didn’t start": False,
    "Let me see. The lock is taken twice.": False,
    "So the lock is taken twice.": False,
    "Nowhere is it written.": False,
    "Let me " + 50 * "really " + "look": False,
}


@pytest.mark.parametrize(("text", "expected"), QUESTIONS.items())
def test_a_question_and_nothing_else(text: str, expected: bool) -> None:
    assert is_question(text) is expected


@pytest.mark.parametrize(("text", "expected"), ANNOUNCEMENTS.items())
def test_a_turn_about_what_comes_next(text: str, expected: bool) -> None:
    assert announces_next_step(text) is expected
