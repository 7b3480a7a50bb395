"""What of a run stands before its items: one line of its summary, cut between words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Outcome, embedded_text
from plait.memory import prepare as rules
from plait.memory.item_context import MAX_CONTEXT, context
from plait.ports.episodes import number
from plait.text.storable import clean
from plait.text.tokenize import tokens
from vector.episodes import rows


@given(st.text())
def test_a_context_is_one_line_within_its_bound(summary: str) -> None:
    found = context(summary)
    assert len(found) <= MAX_CONTEXT
    assert found == " ".join(found.split())
    assert " ".join(summary.split()).startswith(found)


def test_a_long_summary_is_cut_between_words_and_one_word_anywhere() -> None:
    assert context("word " * 100) == " ".join(["word"] * 40)
    assert context("x" * 1_000) == "x" * MAX_CONTEXT
    assert context(" \n\t ") == ""


def test_without_a_summary_an_item_is_what_it_was() -> None:
    assert embedded_text("a.py", "f", "x") == embedded_text("a.py", "f", "x", "")
    assert embedded_text("a.py", "f", "x", "fixed it") == "a.py f\nfixed it\nx"


def test_a_diff_of_one_file_is_searched_without_its_head() -> None:
    hunk = "@@ -1 +1 @@\n-wait(30)\n+wait(60)"
    diff = f"diff --git a/b.py b/b.py\nindex 1..2\n--- a/b.py\n+++ b/b.py\n{hunk}"
    assert embedded_text("b.py", "", diff) == f"b.py\n{hunk}"
    assert embedded_text("b.py", "", diff, "fixed it") == f"b.py\nfixed it\n{hunk}"
    # A file that holds a diff of another, one of two files, and one without a hunk stay as they are.
    for path, text in (("fix.patch", diff), ("", diff), ("b.py", diff.partition("@@")[0])):
        assert embedded_text(path, "", text) == f"{path}\n{text}"


@pytest.mark.parametrize("summary", ["", "the \0 importer \ud800 closes its files"])
def test_the_words_and_the_hash_of_an_item_are_of_one_text(summary: str) -> None:
    turn = Artifact(ArtifactKind.TURN, "$ python --version\nPython 3.11", meta={"role": "tool"})
    (one,) = number([Episode("e", "r", Outcome("success", summary), [turn])])
    prepared = rules.prepare(one)
    assert prepared.context == clean(context(summary))
    text = embedded_text("", "", turn.content, prepared.context)
    assert prepared.items[0].hash == rules.content_hash(text)
    segment = rows.segments_of([one], rules.indexed_texts)["r", Collection.MEMORIES]
    assert int(segment.lengths[0]) == len(tokens(text))
