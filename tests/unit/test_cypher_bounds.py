"""What the guard foretells of an expression is never less than what happens."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graph.cypher import tree
from graph.cypher.costs import Costs
from graph.cypher.parser import parse
from graph.guard.rules import Limits, guard
from graph.guard.statement import Statement
from graph.guard.tokens import tokenize
from tests.cypher_interpreter import Interpreter, taken

PARAMETERS: dict[str, Any] = {
    "l": [1, "bc", [3, 4], {"k": "v"}],
    "t": "a.b.c.d",
    "m": {"x": "xyz", "l": [1, 2, 3], "m": {"x": ["q"]}},
    "n": 4,
}
UNLIMITED = Limits(
    steps=10**18, value_bytes=10**18, gathered_bytes=10**18, range_items=10**6, tokens=10**6
)
LEAVES = ["1", "'ab'", "[]", "[1, 'x']", "{x: 'y'}", "$l", "$t", "$m", "$n", "$m.l", "null"]


@st.composite
def expressions(draw: st.DrawFn, names: tuple[str, ...] = (), depth: int = 4) -> str:
    """An expression that makes much of little: every form that grows or loops."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([*LEAVES, *names, *names]))
    new = f"v{len(names)}"
    other = f"w{len(names)}"

    def inner(*more: str) -> str:
        return draw(expressions((*names, *more), depth - 1))

    form = draw(st.integers(0, 19))
    forms = {
        0: lambda: f"({inner()} + {inner()})",
        1: lambda: f"[{inner()}, {inner()}]",
        2: lambda: f"{{x: {inner()}, y: {inner()}}}",
        3: lambda: f"[{new} IN {inner()} | {inner(new)}]",
        4: lambda: f"[{new} IN {inner()} WHERE {inner(new)} = {inner(new)} | {inner(new)}]",
        5: lambda: f"any({new} IN {inner()} WHERE {inner(new)} IN {inner(new)})",
        6: lambda: f"reduce({other} = {inner()}, {new} IN {inner()} | {inner(other, new)})",
        7: lambda: f"replace({inner()}, 'a', {inner()})",
        8: lambda: f"split({inner()}, {draw(st.sampled_from(['.', '', 'a']))!r})",
        9: lambda: f"range(0, size({inner()}))",
        10: lambda: f"keys({inner()})",
        11: lambda: f"head({inner()})",
        12: lambda: f"tail({inner()})",
        13: lambda: f"reverse({inner()})",
        14: lambda: f"coalesce({inner()}, {inner()})",
        15: lambda: f"CASE WHEN {inner()} = 1 THEN {inner()} ELSE {inner()} END",
        16: lambda: f"({inner()}).x",
        17: lambda: f"({inner()})[{inner()}]",
        18: lambda: f"({inner()})[..{draw(st.integers(0, 4))}]",
        19: lambda: f"left({inner()}, {draw(st.integers(0, 9))})",
    }
    return forms[form]()


def parsed(text: str) -> tuple[tree.Expr, Costs]:
    tokens, clean = tokenize(f"RETURN {text}")
    statement = Statement.of(clean, tokens, PARAMETERS, dataclasses.replace(UNLIMITED, nesting=400))
    (branch,) = parse(statement).branches
    (projection,) = branch
    assert isinstance(projection, tree.Projection)
    return projection.items[0].of, Costs(statement, lambda query, names: pytest.fail("none"))


@given(expressions())
def test_a_bound_is_never_passed(text: str) -> None:
    expr, costs = parsed(text)
    size = costs.size(expr, {})
    assume(costs.steps < 200_000 and size.bytes < 2_000_000)
    interpreter = Interpreter(PARAMETERS)
    try:
        value = interpreter.value(expr, {})
    except (TypeError, IndexError):
        return  # a server refuses it too
    assert interpreter.steps <= costs.steps
    assert taken(value) <= size.bytes


@pytest.mark.parametrize(
    ("text", "at_most"),
    [
        ("[a IN range(1, 100) | a]", 500),
        ("[a IN $l WHERE a IN $l]", 100),
        ("reduce(t = 0, a IN range(1, 1000) | t + a)", 10_000),
        ("[a IN range(1, 1000)[..10] | [b IN range(1, 10) | b]]", 2_000),
        ("size($t) + size($l)", 10),
    ],
)
def test_a_bound_is_near(text: str, at_most: int) -> None:
    expr, costs = parsed(text)
    costs.size(expr, {})
    assert costs.steps <= at_most


def test_brackets_may_nest_thirty_deep() -> None:
    assert guard("RETURN " + "(" * 30 + "1" + ")" * 30, {}).text
    assert guard("RETURN " + "[" * 30 + "1" + "]" * 30, {}).text


def test_a_long_sum_is_no_deep_tree() -> None:
    assert guard("RETURN " + "1 + " * 1_500 + "1", {}).text
