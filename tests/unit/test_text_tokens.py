"""The words that BM25 sees: the same from a document and from a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.tokenize import MAX_TERM, query_terms, split, stem, tokens, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("getHTTPResponse", ["gethttprespons", "get", "http", "respons"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("snake_case_name", ["snake_case_name", "snak", "cas", "nam"]),
        ("SCREAMING_CASE", ["screaming_case", "scream", "cas"]),
        ("__init__ _private", ["init", "privat"]),
        ("utf8 sha256", ["utf8", "utf", "sha256", "sha", "256"]),
        ("plain words here", ["plain", "word", "her"]),
        ("self.request.user", ["self", "request", "user"]),
        ("x = i + 1", []),  # single letters and digits
        ("a_b", ["a_b"]),
        ("don't", ["don"]),
        ("v1.2 0x1f 3.14", ["v1", "0x1f", "14"]),
        ("Ünïcode naïve", ["ünïcode", "naïve"]),
        ("straße", ["strasse"]),
        ("ﬁle ＡＢＣ", ["fil", "abc"]),  # NFKC
        ("e\u0301tude", ["étude"]),  # a combining accent belongs to its letter
        ("МойКласс", ["мойкласс", "мой", "класс"]),
        ("日本語 foo日本bar 字", ["日本", "本語", "foo", "日本", "bar", "字"]),
        ("हिन्दी", ["हिन्दी"]),
        ("3f2504e04f8911d39a0c0305e82c3301abcd1234", ["3f2504e04f8911d39a0c0305e82c3301abcd1234"]),
        ("a1" * 25, []),  # longer than a SHA-1: a blob
        ("QUJD" * 20, []),  # base64
        ("_".join(["word"] * 20), [("word_" * 20)[:MAX_TERM], *["word"] * 20]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_query_terms_are_distinct_and_in_order() -> None:
    assert query_terms("get user get UserName") == ["get", "user", "usernam", "nam"]


def test_query_terms_leave_stop_words_out_unless_there_is_nothing_else() -> None:
    assert query_terms("When is the cache of a User cleared?") == ["cach", "user", "clear"]
    assert query_terms("is_not this") == ["is_not", "is", "not"]
    assert query_terms("What is THIS") == ["what", "is", "this"]


@pytest.mark.parametrize(
    "family",
    [
        "request requests requested requesting",
        "query queries queried",
        "parse parses parsed parsing",
        "run runs running",
        "call calls called calling",
        "class classes",
        "match matches matched matching",
        "use uses used using",
        "index indexes indexed indexing",
        "string strings",
    ],
)
def test_forms_of_a_word_share_a_stem(family: str) -> None:
    assert len({stem(word) for word in family.split()}) == 1


@pytest.mark.parametrize(
    "word", ["this", "status", "access", "string", "red", "x86", "a_bed", "été"]
)
def test_what_is_no_ending_stays(word: str) -> None:
    assert stem(word) == word


@given(st.text())
def test_terms_are_short_lower_case_and_stable(text: str) -> None:
    for term in tokens(text):
        assert 0 < len(term) <= MAX_TERM
        assert term == term.casefold() or not term.isascii()
        assert not term.isspace()
        assert "\0" not in term
    assert tokens(text) == tokens(text)
    assert [t for word in words(text) for t in split(word)] == tokens(text)


@given(st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=1, max_size=6))
def test_every_spelling_of_a_name_finds_every_other(parts: list[str]) -> None:
    snake = set(tokens("_".join(parts)))
    camel = set(tokens("".join(part.title() for part in parts)))
    prose = set(tokens(" ".join(parts)))
    assert prose <= snake
    assert prose <= camel
