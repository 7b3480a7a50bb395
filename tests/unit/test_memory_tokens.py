"""Token counts: exact, offline, whatever the text holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text import token_count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("hello world", 2),
        ("tiktoken is great!", 6),  # the example of OpenAI's cookbook for o200k_base
        ("antidisestablishmentarianism", 6),  # likewise
        ("2 + 2 = 4", 7),  # likewise
    ],
)
def test_counts_are_those_of_o200k(text: str, expected: int) -> None:
    assert token_count.count(text) == expected


def test_special_tokens_are_plain_text() -> None:
    assert token_count.count("<|endoftext|>") > 1


def test_half_a_surrogate_pair_is_counted() -> None:
    assert token_count.count("a\ud800b") == token_count.count("a?b")


@given(st.text(max_size=300), st.integers(0, 40))
def test_a_cut_is_a_prefix_that_fits(text: str, budget: int) -> None:
    plain = text.encode("utf-8", "replace").decode()
    prefix = token_count.cut(plain, budget)
    assert plain.startswith(prefix)
    assert token_count.count(prefix) <= budget
    assert token_count.fits(plain, budget) == (token_count.count(plain) <= budget)
    if token_count.fits(plain, budget):
        assert prefix == plain
