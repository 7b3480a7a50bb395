"""Counting words a batch at a time gives what counting each chunk by itself gives."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etl.parsing import count
from etl.parsing.count import Vocabulary
from plait.text.tokenize import tokens

TEXTS = st.lists(st.text("aBc_ 1é中\n", max_size=40), max_size=6)


def counted(vocabulary: Vocabulary, terms: list[str], texts: list[str]) -> list[Counter[str]]:
    """The terms of each text, as `etl.parsing.pool` puts them together."""
    words: list[int] = []
    sizes: list[int] = []
    for text in texts:
        mine = list(vocabulary.of(text))
        words += mine
        sizes.append(len(mine))
    found = vocabulary.postings(words, sizes)
    terms += vocabulary.unsent()
    out, at = [], 0
    for size in found.distinct.tolist():
        part = slice(at, at + size)
        pairs = zip(found.terms[part].tolist(), found.tfs[part].tolist(), strict=True)
        out.append(Counter({terms[term]: times for term, times in pairs}))
        at += size
    assert found.lengths.tolist() == [sum(counts.values()) for counts in out]
    return out


@given(TEXTS, TEXTS)
def test_each_chunk_has_its_terms_over_two_batches(first: list[str], second: list[str]) -> None:
    vocabulary, terms = Vocabulary(), list[str]()
    for texts in (first, second):
        assert counted(vocabulary, terms, texts) == [Counter(tokens(text)) for text in texts]


def test_a_frequency_is_capped_and_a_length_is_not() -> None:
    vocabulary = Vocabulary()
    words = list(vocabulary.of("word " * 300))
    found = vocabulary.postings(words, [len(words)])
    assert found.tfs.tolist() == [255]
    assert found.lengths.tolist() == [300]


def test_a_vocabulary_that_forgets_goes_on_numbering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "MAX_WORDS", 2)
    vocabulary, terms = Vocabulary(), list[str]()
    for text in ("one two three", "two four", "one", "four five six seven", "six"):
        vocabulary.trim()
        assert counted(vocabulary, terms, [text]) == [Counter(tokens(text))]
    assert len(vocabulary) <= 5


def test_no_chunks_have_no_terms() -> None:
    found = Vocabulary().postings([], [])
    assert not len(found.lengths)
    assert not len(found.terms)
    found = Vocabulary().postings([], [0, 0])
    assert found.distinct.tolist() == [0, 0]
