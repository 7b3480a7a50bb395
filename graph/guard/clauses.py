"""The guard's rule on words: none of a clause that writes or administers."""

from __future__ import annotations

from graph.guard.statement import Statement
from graph.guard.tokens import Kind
from graph.guard.words import ADMIN, CLAUSES, CLOSING, INSTEAD, OPERATORS, WRITES

_READ_ONLY = (
    "a query may have MATCH, OPTIONAL MATCH, WHERE, WITH, UNWIND, RETURN, ORDER BY, SKIP, LIMIT, "
    "UNION and CALL { … }"
)
_KEYWORDS = CLAUSES | OPERATORS


def only_known_words(s: Statement) -> None:
    """No word of a writing or administrative clause, except where it can only be a name."""
    for i, token in s.words():
        if token.name in WRITES | ADMIN and not s.is_name(i):
            if token.name in INSTEAD:
                fix = INSTEAD[token.name]
            elif token.name in WRITES:
                fix = f"the graph is read-only here: {_READ_ONLY}"
            else:
                fix = f"{_READ_ONLY}. As a name, put it in backticks"
            raise s.refuse(i, f"`{token.text}`", fix)


def ends_operand(s: Statement, i: int) -> bool:
    token = s.tokens[i]
    if token.kind is Kind.SYMBOL:
        return token.text in (")", "]", "}")
    if token.kind is Kind.WORD:
        return s.is_name(i) or token.name in CLOSING or token.name not in _KEYWORDS
    return True
