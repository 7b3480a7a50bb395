"""The guard before users' Cypher: what passes, what does not, and that nothing crashes it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph.guard.projection import columns
from graph.guard.rules import Limits, guard
from graph.guard.tokens import Kind, tokenize
from graph.guard.words import ADMIN, CLAUSES, OPERATORS, WRITES
from plait.domain.errors import CypherRefused
from tests.cypher_cases import BENIGN, HOSTILE

ARCADE = Limits(aggregate_predicates=False)


@pytest.mark.parametrize(("text", "given_"), BENIGN)
def test_reading_passes(text: str, given_: dict[str, Any]) -> None:
    assert guard(text, given_)
    if "IS NOT NULL AS k" not in text:
        assert guard(text, given_, ARCADE)


@pytest.mark.parametrize(("text", "given_", "why"), HOSTILE)
def test_the_rest_is_refused_and_told_why(text: str, given_: dict[str, Any], why: str) -> None:
    with pytest.raises(CypherRefused) as caught:
        guard(text, given_)
    assert why in str(caught.value)
    assert caught.value.field in ("cypher", "parameters")


def test_there_are_cases_enough() -> None:
    assert len(HOSTILE) >= 60
    assert len(BENIGN) >= 40


def test_the_place_is_told() -> None:
    with pytest.raises(CypherRefused, match=r"`SET` \(line 2, column 3\)"):
        guard("MATCH (n)\n  SET n.x = 1", {})


def test_comments_are_taken_out_and_places_stay() -> None:
    text = "MATCH (n) /* a\nb */ RETURN n // c"
    sent = guard(text, {}).text
    assert "/*" not in sent
    assert "//" not in sent
    assert sent.index("RETURN") == text.index("RETURN")


@pytest.mark.parametrize(
    "item",
    [
        "max(c.n) IS NOT NULL",
        "max(c.n) IN [1, 2]",
        "1 IN collect(c.n)",
        "max(c.id) STARTS WITH 'f'",
        "max(c.id) ENDS WITH 'f'",
        "max(c.id) CONTAINS 'f'",
        "max(c.id) =~ 'f.*'",
        "NOT max(c.n) > 3",
        "max(c.n) > 3 AND count(c) > 1",
        "max(c.n) > 3 OR count(c) > 1",
        "max(c.n) > 3 XOR count(c) > 1",
        "coalesce(max(c.n) IN [1, 2], false)",
        "CASE WHEN max(c.n) IS NULL THEN 1 ELSE 2 END",
        "toString(count(c)) STARTS WITH '1'",
        "collect(c)[0].n",
    ],
)
@pytest.mark.parametrize("clause", ["RETURN g.id, {} AS x", "WITH g, {} AS x RETURN x"])
def test_arcadedb_is_not_asked_what_it_answers_wrongly(item: str, clause: str) -> None:
    text = "MATCH (g)-[:CALLS]->(c) " + clause.format(item)
    with pytest.raises(CypherRefused, match="aggregate first"):
        guard(text, {}, ARCADE)
    assert guard(text, {})


@pytest.mark.parametrize(
    "item",
    [
        "count(c) + 1",
        "max(c.n) > 3",
        "count(CASE WHEN c.n IN [1, 2] THEN 1 END)",
        "collect(c.n IN [1, 2])",
        "[x IN collect(c.n) | x + 1]",
        "c.n IN [1, 2], count(*)",
        "CASE WHEN count(c) > 2 THEN 'a' ELSE 'b' END",
        "any(x IN collect(c.n) WHERE x > 2)",
        "size(collect(c))",
        "collect(c.n)[0]",
    ],
)
def test_arcadedb_is_asked_what_it_answers_rightly(item: str) -> None:
    assert guard(f"MATCH (g)-[:CALLS]->(c) RETURN g.id, {item} AS x", {}, ARCADE)


def test_columns_are_read_from_the_text() -> None:
    assert columns("MATCH (n) RETURN n.id AS a, count(*) AS `b c`, n.x ORDER BY a") == (
        "a",
        "b c",
        "n.x",
    )
    assert columns("RETURN DISTINCT coalesce(1, 2)+1, [1,2] UNION RETURN 1, 2") == (
        "coalesce(1, 2)+1",
        "[1,2]",
    )
    assert columns("MATCH (n) RETURN *") == ()
    assert columns("CALL { RETURN 1 AS z } RETURN z LIMIT 1") == ("z",)


PIECES = st.sampled_from(
    sorted(WRITES | ADMIN)
    + sorted(CLAUSES | OPERATORS)
    + ["n", "a", "range", "reduce", "count", "any", "null", "1", "2.5", "300000000"]
    + [*"()[]{}-:.,;|*+=/", "->", "<-", "..", "=~", "'x'", '"y"', "`q`", "$p", "/*", "*/", "//"]
    + ["\n", "\\", "'", "`", "\\u0027", "\0", "é"]
)


@given(st.lists(PIECES, max_size=40).map(" ".join))
def test_pieces_of_cypher_pass_or_are_refused(text: str) -> None:
    _passes_or_is_refused(text)


@given(st.text(max_size=200))
def test_any_text_passes_or_is_refused(text: str) -> None:
    _passes_or_is_refused(text)


@given(st.sampled_from([text for text, _ in BENIGN]), st.data())
def test_damaged_queries_pass_or_are_refused(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, min(len(text), at + 8)))
    _passes_or_is_refused(text[:at] + data.draw(PIECES) + text[to:])


def _passes_or_is_refused(text: str) -> None:
    try:
        sent = guard(text, {"p": 1}, ARCADE).text
    except CypherRefused:
        return
    tokens, again = tokenize(sent)
    assert again.rstrip() == sent
    assert not any(token.is_symbol(";") for token in tokens)
    columns(sent)


BEGINNINGS = [
    "",
    "MATCH (n)",
    "MATCH (n) WITH n",
    "RETURN 1 AS x UNION",
    "WITH *",
    "CALL {",
    "UNWIND [1] AS x",
    "MATCH (n) WHERE n.x = 1",
    "MATCH (n) RETURN n ORDER BY n.x DESC",
    "MATCH (n) RETURN n LIMIT 1",
    "RETURN null",
    "RETURN 'a'",
    "RETURN $p",
    "RETURN {a: 1}",
    "MATCH (n:Function)",
    "RETURN n.x",
]
GAPS = st.sampled_from([" ", "\n", "\t", "\r\n", "/**/", "/* x */ ", " // x\n"])


@given(
    word=st.sampled_from(sorted(WRITES)),
    upper=st.lists(st.booleans(), min_size=10, max_size=10),
    before=st.sampled_from(BEGINNINGS),
    after=st.sampled_from(
        ["(m)", "n.x = 1", "n", "n:X", "(m:X {a: 1})", "(x IN [1] | SET n.x = 1)"]
    ),
    gap=GAPS,
    other=GAPS,
)
def test_writing_words_are_refused_in_every_disguise(
    word: str, upper: list[bool], before: str, after: str, gap: str, other: str
) -> None:
    mixed = "".join(
        c.upper() if up else c.lower() for c, up in zip(word, upper + [True] * 9, strict=False)
    )
    with pytest.raises(CypherRefused):
        guard(f"{before}{gap}{mixed}{other}{after}", {"p": 1})


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\\`\0", exclude_categories=["Cc"]))


@given(NAMES)
def test_strings_and_backticks_hold_anything(text: str) -> None:
    plain = text.replace("'", "")
    tokens, _ = tokenize(f"RETURN '{plain}' AS `{text}`")
    assert [token.kind for token in tokens] == [Kind.WORD, Kind.STRING, Kind.WORD, Kind.QUOTED]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_any_parameters_pass_or_are_refused(values: dict[str, Any]) -> None:
    with contextlib.suppress(CypherRefused):
        guard("RETURN 1", values)
