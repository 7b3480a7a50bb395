"""The front door for users' Cypher: one statement that can only read, bounded where a server is not.

The same rules for every server, since neither READ sessions nor EXPLAIN can be trusted (see
docs/cypher-guard.md). An allow-list throughout: clauses, operators and functions that are not in
`cypher_words` are refused, whatever they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graph.cypher import allowed, bounds, rewrite, scoping
from graph.cypher.parser import parse
from graph.guard import clauses, patterns, projection
from graph.guard.statement import Limits, Statement
from graph.guard.tokens import Token, refuse, tokenize
from plait.domain.errors import CypherRefused

__all__ = ["Guarded", "Limits", "guard"]

_RULES: tuple[Callable[[Statement], None], ...] = (
    clauses.only_known_words,
    patterns.regular_expressions,
    projection.aggregate_predicates,
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """`text`: the statement to send, comments blanked out, without a trailing semicolon. `parameters`:
    with those that Plait adds. `capped_hops`: where paths without an end were given one; 0: there were
    none."""

    text: str
    parameters: Mapping[str, Any]
    capped_hops: int = 0


def guard(
    cypher: str,
    parameters: Mapping[str, Any],
    limits: Limits | None = None,
    *,
    repos: Sequence[str] = (),
) -> Guarded:
    """`repos`: the repositories that the statement may read; empty: all.

    Raises: CypherRefused, naming the token, its position, and what to write instead.
    """
    limits = limits or Limits()
    if len(cypher) > limits.text:
        raise CypherRefused(
            f"the statement has {len(cypher)} characters, {limits.text} are allowed; "
            "pass data as parameters",
            field="cypher",
        )
    check_parameters(parameters, limits)
    tokens, text = tokenize(cypher)
    tokens, text = _one_statement(tokens, text)
    if not tokens:
        raise CypherRefused("the statement is empty; write MATCH … RETURN …", field="cypher")
    if len(tokens) > limits.tokens:
        raise refuse(
            text,
            tokens[limits.tokens].at,
            f"more than {limits.tokens} tokens",
            "ask for less at once",
        )
    statement = Statement.of(text, tokens, parameters, limits)
    for rule in _RULES:
        rule(statement)
    try:
        return _measured(statement, repos)
    except RecursionError:
        raise CypherRefused(
            "the statement is nested too deep; flatten it", field="cypher"
        ) from None


def _measured(statement: Statement, repos: Sequence[str]) -> Guarded:
    query = parse(statement)
    allowed.only_known_functions(statement, query)
    hops, capped = rewrite.bounded_hops(statement, query)
    bounds.measure(statement, query)
    edits = [*hops, *rewrite.introspection(statement, query)]
    given = dict(statement.parameters)
    if repos:
        edits += scoping.limited(statement, query)
        given[scoping.PARAMETER] = list(repos)
    text = rewrite.edited(statement.text, edits)
    return Guarded(text, given, capped)


def _one_statement(tokens: list[Token], text: str) -> tuple[list[Token], str]:
    while tokens and tokens[-1].is_symbol(";"):
        last = tokens.pop()
        text = text[: last.at] + " " + text[last.at + 1 :]
    for token in tokens:
        if token.is_symbol(";"):
            raise refuse(
                text, token.at, "a second statement after `;`", "send one statement a call"
            )
    return tokens, text.rstrip()


def check_parameters(parameters: Mapping[str, Any], limits: Limits) -> None:
    """Raises: CypherRefused, for a value that is too large, too deep, or no Cypher value."""
    size = 0
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise CypherRefused("parameter names are text", field="parameters")
        size += _measure(value, name, limits, depth=0)
    if size > limits.parameter_bytes:
        raise CypherRefused(
            f"the parameters take about {size} bytes, {limits.parameter_bytes} are allowed; "
            "send fewer values a call",
            field="parameters",
        )


def _measure(value: Any, name: str, limits: Limits, depth: int) -> int:
    """Bytes of `value`, roughly."""
    if depth > limits.parameter_depth:
        raise _bad(name, f"is nested deeper than {limits.parameter_depth}", "flatten it")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise _bad(name, "does not fit 64 bits", "pass it as text")
    if value is None or isinstance(value, (bool, int, float)):
        return 8
    if isinstance(value, (str, bytes)):
        return 8 + _measure_text(value, name, limits)
    if isinstance(value, (list, tuple)):
        if len(value) > limits.list_items:
            raise _bad(name, f"has more than {limits.list_items} items", "send them in parts")
        return 8 + sum(_measure(item, name, limits, depth + 1) for item in value)
    if isinstance(value, Mapping):
        return 8 + _measure_map(value, name, limits, depth)
    raise _bad(
        name, f"is a {type(value).__name__}", "pass null, booleans, numbers, text, lists or maps"
    )


def _measure_text(value: str | bytes, name: str, limits: Limits) -> int:
    if len(value) > limits.string:
        raise _bad(name, f"is longer than {limits.string}", "shorten it")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise _bad(name, "is not valid Unicode", "remove lone surrogates") from exc
    return len(value)


def _measure_map(value: Mapping[Any, Any], name: str, limits: Limits, depth: int) -> int:
    if len(value) > limits.list_items:
        raise _bad(name, f"has more than {limits.list_items} keys", "send them in parts")
    if any(not isinstance(key, str) for key in value):
        raise _bad(name, "has a key that is not text", "use text keys")
    return sum(len(key) + _measure(item, name, limits, depth + 1) for key, item in value.items())


def _bad(name: str, what: str, fix: str) -> CypherRefused:
    return CypherRefused(f"the parameter ${name} {what}; {fix}", field="parameters", parameter=name)
