"""What a query's text tells: kind, identifiers, phrases; and which queries are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.errors import InvalidInput
from plait.retrieval.query.analysis import MAX_TERMS, QueryKind, SearchQuery, analyse

NAMES = [
    ("get_user", ["get_user"]),
    ("fix getUserName for guests", ["getUserName"]),
    ("HTTPResponse is never closed", ["HTTPResponse"]),
    ("Session.get ignores the timeout", ["Session.get"]),
    ("what does dispatch() call", ["dispatch"]),
    ("`Option` loses its default", ["Option"]),
    ("Client::open and Client#close", ["Client.open", "Client.close"]),
    ("self->buffer overflows", ["self.buffer"]),
    ("`a.b.c` twice, a.b.c", ["a.b.c"]),
    ("__init__ and __exit__", []),
    ("Router", ["Router"]),
    ("where are cookies stored?", []),
    ("e.g. a proxy, i.e. nothing", []),
    ("version 3.11 of 2024-01-02", []),
    ("Handle the first word's capital", []),
    ("e-mail addresses: reply-to", []),
    ("größe_der_datei", ["größe_der_datei"]),
]


@pytest.mark.parametrize(("text", "names"), NAMES)
def test_identifiers(text: str, names: list[str]) -> None:
    asked = analyse(SearchQuery(text))
    assert list(asked.identifiers) == names
    assert asked.kind is (QueryKind.IDENTIFIERS if names else QueryKind.PLAIN)


def test_quotes_make_phrases() -> None:
    asked = analyse(SearchQuery('find "connection reset by peer" and "" or "x" in logs'))
    assert asked.phrases == ("connection reset by peer",)


@pytest.mark.parametrize("text", ["", "  \n\t", "\x00", "x" * 8193, "ä" * 4097])
def test_a_query_that_says_nothing_or_too_much_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        analyse(SearchQuery(text))
    assert caught.value.field == "query"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (SearchQuery("a", k=201), "k"),
        (SearchQuery("a", k=-1), "k"),
        (SearchQuery("a", min_score=1.1), "min_score"),
        (SearchQuery("a", min_score=float("nan")), "min_score"),
    ],
)
def test_a_value_out_of_range_names_its_field(query: SearchQuery, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        analyse(query)
    assert caught.value.field == field


@given(st.text(st.characters(), min_size=1, max_size=2000))
def test_any_text_is_analysed_or_refused(text: str) -> None:
    try:
        asked = analyse(SearchQuery(text))
    except InvalidInput:
        return
    asked.text.encode()
    assert "\x00" not in asked.text
    assert len(asked.terms) <= MAX_TERMS


@pytest.mark.parametrize("unit", ["a.", "a::", "`", '"', "_", "->", "()", "a->b#", "A", "é"])
def test_long_runs_of_joints_take_no_time(unit: str) -> None:
    analyse(SearchQuery("x " + unit * (8000 // len(unit.encode()))))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("parse header value", ("parse_header_value",)),
        ("where is the header value", ("where_is_the_header_value", "header_value")),
        ("Read with default", ("read_with_default", "read_default")),
        ("parse_header value", ()),
        ("header", ()),
        ("what is done with a header that has no value in it at all", ()),
        ("größe lesen", ()),
        ("...", ()),
    ],
)
def test_a_few_plain_words_may_be_one_name(text: str, names: tuple[str, ...]) -> None:
    assert analyse(SearchQuery(text)).joined == names
