"""The guard's rules on words: clauses, operators and functions."""

from __future__ import annotations

from graph.cypher_tokens import Kind
from graph.cypher_words import (
    ADMIN,
    BEFORE_PARENTHESIS,
    CLOSING,
    CONNECTING,
    FUNCTIONS,
    INSTEAD,
    OPENING,
    SUBQUERIES,
    WRITES,
)
from graph.statement import Statement

_READ_ONLY = (
    "a query may have MATCH, OPTIONAL MATCH, WHERE, WITH, UNWIND, RETURN, ORDER BY, SKIP, LIMIT, "
    "UNION and CALL { … }"
)
_KEYWORDS = BEFORE_PARENTHESIS


def only_known_words(s: Statement) -> None:
    """No word of a writing or administrative clause, except where it can only be a name."""
    for i, token in s.words():
        if token.name in WRITES | ADMIN and not s.is_name(i):
            if token.name == "SHORTEST":
                fix = "write shortestPath((a)-[*..8]->(b)): not every server has SHORTEST"
            elif token.name in WRITES:
                fix = f"the graph is read-only here: {_READ_ONLY}"
            else:
                fix = f"{_READ_ONLY}. As a name, put it in backticks"
            raise s.refuse(i, f"`{token.text}`", fix)


def clauses_in_place(s: Statement) -> None:
    """Every place where a clause may begin holds one the guard knows."""
    tokens = s.tokens
    if not s.word(0, *OPENING):
        raise s.refuse(0, f"the statement begins with `{tokens[0].text}`", _READ_ONLY)
    subqueries = 0
    for i, token in s.words():
        if s.is_name(i):
            continue
        if i and ends_operand(s, i - 1) and token.name not in CONNECTING:
            raise s.refuse(i, f"`{token.text}` after `{tokens[i - 1].text}`", _READ_ONLY)
        if token.name in ("UNION", "ALL") and (token.name == "UNION" or s.word(i - 1, "UNION")):
            _opens(s, i + 1, {"ALL", "DISTINCT"} if token.name == "UNION" else set())
        elif token.name == "DISTINCT" and s.word(i - 1, "UNION"):
            _opens(s, i + 1, set())
        elif token.name == "OPTIONAL" and not s.word(i + 1, "MATCH"):
            raise s.refuse(i, "`OPTIONAL` without MATCH", "write OPTIONAL MATCH")
        elif token.name == "CALL":
            subqueries += 1
            _call(s, i)
        elif token.name in SUBQUERIES and s.symbol(i + 1, "{"):
            subqueries += 1
            _subquery(s, i + 1)
        if subqueries > s.limits.subqueries:
            raise s.refuse(i, f"more than {s.limits.subqueries} subqueries", "split the question")


def ends_operand(s: Statement, i: int) -> bool:
    token = s.tokens[i]
    if token.kind is Kind.SYMBOL:
        return token.text in (")", "]", "}")
    if token.kind is Kind.WORD:
        return s.is_name(i) or token.name in CLOSING or token.name not in _KEYWORDS
    return True


def _opens(s: Statement, i: int, besides: set[str]) -> None:
    if not s.word(i, *OPENING, *besides):
        at = i if i < len(s.tokens) else i - 1
        raise s.refuse(at, "UNION is not followed by a clause", _READ_ONLY)


def _call(s: Statement, i: int) -> None:
    """CALL { … } and CALL (x) { … }; never CALL name.of.procedure(…)."""
    at = i + 1
    if s.symbol(at, "("):
        at = s.close[at] + 1
    if not s.symbol(at, "{"):
        raise s.refuse(
            i, "CALL of a procedure", "only subqueries, CALL { … }, are allowed; use a template"
        )
    after = s.close[at] + 1
    if s.word(after, "IN"):
        raise s.refuse(after, "CALL { … } IN TRANSACTIONS", "leave IN TRANSACTIONS out")
    if not s.word(at + 1, *OPENING):
        raise s.refuse(at, "a subquery that does not begin with a clause", _READ_ONLY)


def _subquery(s: Statement, opener: int) -> None:
    """EXISTS, COUNT, COLLECT { … }: a query, or a bare pattern."""
    first = opener + 1
    if not (s.symbol(first, "(") or s.word(first, *OPENING)):
        raise s.refuse(
            opener, "a subquery that begins with neither a clause nor a pattern", _READ_ONLY
        )


def calls(s: Statement) -> None:
    """Every `name(` is a function of the allow-list."""
    for i, token in enumerate(s.tokens):
        if not token.is_symbol("(") or i == 0:
            continue
        before = s.tokens[i - 1]
        if before.kind is Kind.QUOTED:
            raise s.refuse(
                i - 1, f"a call of {before.text}", "write a function's name without backticks"
            )
        if before.kind is not Kind.WORD:
            continue
        if before.name in BEFORE_PARENTHESIS and not s.symbol(i - 2, "."):
            continue
        if before.name == "ALL" or (s.is_name(i - 1) and not s.symbol(i - 2, ".")):
            continue
        name, start = _dotted(s, i - 1)
        if name.lower() not in FUNCTIONS:
            fix = INSTEAD.get(name.upper(), "docs/cypher-guard.md lists the functions there are")
            raise s.refuse(start, f"the function `{name}`", fix)


def _dotted(s: Statement, i: int) -> tuple[str, int]:
    """The whole name that ends at token `i`, as in `date.truncate`, and where it begins."""
    parts = [s.tokens[i].text]
    while s.symbol(i - 1, "."):
        owner = s.at(i - 2)
        if owner is None or owner.kind not in (Kind.WORD, Kind.QUOTED):
            return f"….{'.'.join(parts)}", i  # a method on an expression, an ArcadeDB habit
        parts.insert(0, owner.text)
        i -= 2
    return ".".join(parts), i
