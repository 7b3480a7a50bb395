"""Whose tokenizer counts for a model's name, and how much is kept back where it is not public."""

from __future__ import annotations

import pytest

from plait.text.token_count import counter


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("", "o200k_base"),
        ("gpt-4o-2024-08-06", "o200k_base"),
        ("gpt-4.1-mini", "o200k_base"),
        ("openai/gpt-5", "o200k_base"),
        ("ft:gpt-4o:acme", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("azure/gpt-35-turbo", "cl100k_base"),
        ("text-embedding-3-small", "cl100k_base"),
        ("gpt-oss-120b", "o200k_harmony"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3"),
        ("llama3.2:3b", "llama3"),
        ("Qwen/Qwen2.5-Coder-7B", "qwen3"),
    ],
)
def test_a_public_tokenizer_counts_exactly(model: str, encoding: str) -> None:
    found = counter(model)
    assert (found.encoding, found.counted.exact, found.counted.margin) == (encoding, True, 0.0)
    assert found.usable(1000) == 1000


@pytest.mark.parametrize(
    ("model", "family", "usable"),
    [
        ("claude-sonnet-4-5", "claude", 700),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude", 700),
        ("google/gemini-2.5-pro", "gemini", 800),
        ("mistralai/mistral-large", "mistral", 800),
        ("llama-4-scout", "llama", 800),
        ("my-own-model", "no tokenizer is known for 'my-own-model'", 700),
    ],
)
def test_the_others_are_counted_by_o200k_with_a_margin_and_say_so(
    model: str, family: str, usable: int
) -> None:
    found = counter(model)
    assert found.encoding == "o200k_base"
    assert not found.counted.exact
    assert family in found.counted.tokenizer
    assert found.usable(1000) == usable


def test_encodings_differ() -> None:
    # 1234567 is three tokens of up to three digits, for qwen each digit is one.
    assert counter("gpt-4").count("1234567") == 3
    assert counter("qwen3").count("1234567") == 7


def test_a_name_of_any_length_and_content_is_answered() -> None:
    assert not counter("x/" * 5000 + "\n\x00").counted.exact
    assert "\n" not in counter("bad\nname").counted.tokenizer
