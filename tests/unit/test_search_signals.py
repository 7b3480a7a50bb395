"""What a candidate's place says for and against it."""

from __future__ import annotations

import pytest

from plait.domain.values import Collection
from plait.ports import Place
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.ranking.signals import prepared, signals
from plait.retrieval.ranking.weights import DEFAULT


def factors(text: str, path: str, kind: str = "function", *, is_test: bool = False) -> set[str]:
    place = Place("r", Collection.FILES, path, "", kind, is_test)
    return set(signals(place, prepared(analyse(SearchQuery(text)))).factors)


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("src/session.py", "function", set()),
        ("tests/test_session.py", "function", {"test"}),
        ("docs/session.md", "doc", {"prose"}),
        ("CHANGES", "doc", {"prose"}),
        ("examples/session.py", "function", {"example"}),
        ("static/table.min.js", "code", {"minified"}),
        ("static/admin.js", "code", set()),
        ("src/session.pyi", "class", {"stub"}),
        ("types/session.d.ts", "interface", {"stub"}),
        ("pyproject.toml", "config", {"config"}),
        ("locale/de.po", "data", {"config"}),
        ("tests/data/sessions.json", "config", {"test"}),
        ("pkg/testdata/session.go", "function", {"test"}),
        ("benches/session.rs", "function", {"example"}),
    ],
)
def test_what_is_not_code_that_does_things_ranks_behind_it(
    path: str, kind: str, expected: set[str]
) -> None:
    assert factors("how are sessions closed", path, kind) == expected


@pytest.mark.parametrize(
    ("text", "path", "kind", "is_test"),
    [
        ("tests for sessions", "src/session.py", "function", True),
        ("session docs", "docs/session.md", "doc", False),
        ("example of a session", "examples/session.py", "function", False),
        ("pyproject dependencies", "pyproject.toml", "config", False),
        ("session stub", "src/session.pyi", "class", False),
    ],
)
def test_a_short_query_that_asks_for_a_kind_gets_it(
    text: str, path: str, kind: str, is_test: bool
) -> None:
    assert not factors(text, path, kind, is_test=is_test)
    long = f"{text} because the connection was lost again"
    assert factors(long, path, kind, is_test=is_test)


@pytest.mark.parametrize(
    ("text", "symbol", "means"),
    [
        ("parse header value", "http.Parser.parseHeaderValue", True),
        ("parse header value", "http.parse_header_value#2", True),
        ("where is the header value", "http.HeaderValue", True),
        ("read with default", "config.readWithDefault", True),
        ("is empty", "list.is_empty?", True),
        ("header value", "http.parse_header_value", False),
        ("parse header value of a request that was sent by a client in a hurry", "a.parse_header_value", False),
    ],
)  # fmt: skip
def test_plain_words_name_the_symbol_that_is_made_of_them(
    text: str, symbol: str, means: bool
) -> None:
    place = Place("r", Collection.FILES, "src/a.x", symbol, "method", False)
    assert ("definition" in signals(place, prepared(analyse(SearchQuery(text)))).bonuses) is means


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        (DEFAULT.signals.long_words, "class", {"class"}),
        (DEFAULT.signals.long_words, "trait", {"class"}),
        (DEFAULT.signals.long_words, "method", set()),
        (DEFAULT.signals.long_words - 1, "class", set()),
    ],
)
def test_a_long_text_is_about_methods_before_their_class(
    words: int, kind: str, expected: set[str]
) -> None:
    assert factors("session " * words, "src/session.py", kind) == expected


@pytest.mark.parametrize(
    ("text", "bonus"),
    [
        ("Session.get", 2 * DEFAULT.signals.definition),
        ("Other.get", DEFAULT.signals.definition),
        (
            "Session.get " + "word " * DEFAULT.signals.long_words,
            2 * DEFAULT.signals.definition_in_long,
        ),
        ("Other.get " + "word " * DEFAULT.signals.long_words, DEFAULT.signals.definition_in_long),
    ],
)
def test_a_named_symbol_gets_a_bonus_a_smaller_one_in_a_long_text(text: str, bonus: float) -> None:
    place = Place("r", Collection.FILES, "a.py", "m.Session.get", "method", is_test=False)
    said = signals(place, prepared(analyse(SearchQuery(text))))
    assert said.bonuses["definition"] == pytest.approx(bonus)


def test_factors_only_demote() -> None:
    assert all(0.0 < factor < 1.0 for factor in DEFAULT.signals.factors.values())
