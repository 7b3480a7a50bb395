"""The guard's rules on size: what no server stops in time is bounded before it gets there.

Both servers stop a query between two rows. Neither stops inside one expression: a loop in a loop
over 10,000 items ran on for 25 s after TERMINATE on ArcadeDB and after the timeout on Neo4j, and a
range(1, 300000000) to the end of memory. So work inside one row is bounded by form.
"""

from __future__ import annotations

import re

from graph.cypher_tokens import Kind
from graph.cypher_words import CLAUSES, OPERATORS, QUANTIFIERS, SUBQUERIES
from graph.statement import Statement

_BOUND = "give an upper bound of at most {hops}, as in `*1..3`"
_LOOPS = frozenset(name.upper() for name in QUANTIFIERS)


# -- variable-length paths -------------------------------------------------------------------------


def paths(s: Statement) -> None:
    """Every `*`, `+` and `{m,n}` on a relationship or a path has an upper bound within the limit."""
    for i, token in enumerate(s.tokens):
        if token.is_symbol("[") and s.symbol(i - 1, "-"):
            _relationship(s, i)
        elif token.is_symbol("{") and _quantifier(s, i):
            _braces(s, i)
        elif token.is_symbol("*", "+") and _open_quantifier(s, i):
            raise s.refuse(i, f"the unbounded path `{token.text}`", _fix(s))


def _fix(s: Statement) -> str:
    return _BOUND.format(hops=s.limits.hops)


def _relationship(s: Statement, opener: int) -> None:
    """`-[r:TYPE*1..3 {…}]-`: the star's upper bound."""
    for i in s.group(opener):
        if s.inside[i] != opener or not s.symbol(i, "*"):
            continue
        numbers = range(i + 1, min(i + 4, s.close[opener]))
        dots = next((j for j in numbers if s.symbol(j, "..")), -1)
        upper = dots + 1 if dots >= 0 else i + 1
        _check_hops(s, i, upper)
        return


def _check_hops(s: Statement, i: int, upper: int) -> None:
    token = s.at(upper)
    if token is None or token.kind is not Kind.NUMBER or not token.text.isdecimal():
        raise s.refuse(i, "a path without an upper bound", _fix(s))
    if int(token.text) > s.limits.hops:
        raise s.refuse(upper, f"a path of up to {token.text} hops", _fix(s))


def _quantifier(s: Statement, opener: int) -> bool:
    """`{2}`, `{1,3}`, `{,3}`, `{1,}` behind a path pattern; a map begins with a name."""
    first = s.at(opener + 1)
    return first is not None and (first.kind is Kind.NUMBER or first.is_symbol(","))


def _braces(s: Statement, opener: int) -> None:
    _check_hops(s, opener, s.close[opener] - 1)


def _open_quantifier(s: Statement, i: int) -> bool:
    """`+` or `*` as a path's quantifier: behind an arrow, or behind a pattern in MATCH."""
    before = s.at(i - 1)
    if before is None:
        return False
    if before.is_symbol(">", "-") and s.symbol(i - 2, "-", "]"):
        return True
    return before.is_symbol(")") and _in_pattern(s, i)


def _in_pattern(s: Statement, i: int) -> bool:
    """Whether token `i` stands in a pattern of MATCH (or EXISTS, COUNT) and not in its WHERE."""
    level = s.inside[i]
    for j in range(i - 1, level, -1):
        if s.inside[j] == level and s.tokens[j].kind is Kind.WORD and not s.is_name(j):
            if s.tokens[j].name == "MATCH":
                return True
            if s.tokens[j].name in CLAUSES | OPERATORS:
                return False
    if level < 0:
        return False
    if s.symbol(level, "("):
        return not s.word(level - 1, *CLAUSES - {"MATCH"}, *OPERATORS) and _in_pattern(s, level)
    return s.symbol(level, "{") and s.word(level - 1, *SUBQUERIES)


# -- range() ---------------------------------------------------------------------------------------


def ranges(s: Statement) -> None:
    """range() takes whole numbers, as literals or parameters, or size(…) and length(…) with a
    number; the product of all of them stays within the limit."""
    product = 1
    for i, token in s.words():
        if token.name == "RANGE" and s.symbol(i + 1, "(") and not s.is_name(i):
            product *= max(1, _length(s, i))
            if product > s.limits.range_items:
                raise s.refuse(
                    i,
                    f"range() of {product} items",
                    f"all ranges multiplied may have {s.limits.range_items}; UNWIND a list or MATCH",
                )


def _length(s: Statement, i: int) -> int:
    """Items of the range() at `i`. One over size(…) counts as 100: the list exists already."""
    values = [_bound(s, part) for part in s.parts(i + 1)]
    if len(values) not in (2, 3):
        raise s.refuse(i, "range() without two or three numbers", "write range(0, 10)")
    if any(value is None for value in values[:2]):
        return 100
    start, end, step = values[0], values[1], (values[2] if len(values) == 3 else 1)
    if not step or start is None or end is None:
        raise s.refuse(i, "range() with a step that is 0 or unknown", "write the step as a number")
    return max(0, (end - start) // step + 1)


def _bound(s: Statement, part: range) -> int | None:
    """The value of an argument; None for size(…) or length(…), with a number added or taken off."""
    sign = 1
    at = part.start
    if len(part) == 2 and s.symbol(at, "-", "+"):
        sign = -1 if s.symbol(at, "-") else 1
        at += 1
    token = s.tokens[at]
    if at == part.stop - 1 and token.kind is Kind.NUMBER and token.text.isdecimal():
        return sign * int(token.text)
    if at == part.stop - 1 and token.kind is Kind.PARAMETER:
        value = s.parameters.get(token.name)
        if isinstance(value, int) and not isinstance(value, bool):
            return sign * value
        raise s.refuse(at, f"range() over {token.text}", "pass a whole number")
    if s.word(at, "SIZE", "LENGTH") and s.symbol(at + 1, "("):
        rest = range(s.close[at + 1] + 1, part.stop)
        if not rest or (
            len(rest) == 2
            and s.symbol(rest.start, "-", "+")
            and s.tokens[rest.start + 1].kind is Kind.NUMBER
            and len(s.tokens[rest.start + 1].text) <= 3
        ):
            return None
    raise s.refuse(
        at,
        "range() over an expression",
        "use whole numbers, parameters, or size(list) - 1: others have no bound before they run",
    )


# -- loops inside one expression ---------------------------------------------------------------------


def loops(s: Statement) -> None:
    """In `[x IN list WHERE … | …]` and `any(x IN list WHERE …)` only `x` may be used whole.

    So a loop never runs over a second list that is itself large: its work grows with the length of
    its list and no faster.
    """
    for i, token in enumerate(s.tokens):
        opener = i - 2
        if token.is_word("IN") and (
            s.symbol(opener, "[") or (s.symbol(opener, "(") and s.word(opener - 1, *_LOOPS))
        ):
            _loop(s, opener, i)


def _loop(s: Statement, opener: int, at: int) -> None:
    end = s.close[opener]
    body = next(
        (
            i
            for i in range(at + 1, end)
            if s.inside[i] == opener and (s.word(i, "WHERE") or s.symbol(i, "|"))
        ),
        end,
    )
    if body == end and s.symbol(opener, "[") and not s.is_variable(at - 1):
        return  # `[1 IN list]`: a list literal
    names = {s.tokens[at - 1].name} | _enclosing(s, opener)
    for i in range(body, end):
        token = s.tokens[i]
        if token.is_word("RANGE", "SPLIT") and s.symbol(i + 1, "("):
            raise s.refuse(i, f"{token.text}() in a loop", "make the list before, in a WITH")
        if s.is_variable(i) and token.name not in names and not _own_variable(s, i):
            raise s.refuse(
                i,
                f"`{token.text}` inside a loop over `{s.tokens[at - 1].text}`",
                "only the loop's own variable may be used whole there, others by a property "
                "(`other.id`); or UNWIND the list: rows can be stopped, a loop cannot",
            )


def _enclosing(s: Statement, opener: int) -> set[str]:
    """The variables of the loops round the bracket at `opener`."""
    names: set[str] = set()
    outer = s.inside[opener]
    while outer >= 0:
        if s.word(outer + 2, "IN"):
            names.add(s.tokens[outer + 1].name)
        outer = s.inside[outer]
    return names


def _own_variable(s: Statement, i: int) -> bool:
    """The variable that a nested loop declares: `y` in `[y IN x.lines …]`, and its uses."""
    opener = s.inside[i]
    while opener >= 0:
        if s.word(opener + 2, "IN") and s.tokens[opener + 1].name == s.tokens[i].name:
            return True
        opener = s.inside[opener]
    return False


# -- lists and texts that grow ------------------------------------------------------------------------


def growth(s: Statement) -> None:
    """`a + a`, `[a, a]`, `{x: a}` from variables, 16 places at most: 40 in a row would fill any memory."""
    points = 0
    for i, token in enumerate(s.tokens):
        if token.is_symbol("+", "||"):
            points += _grows(s, i - 1) + _grows(s, i + 1)
        elif s.is_variable(i) and s.symbol(i - 1, "[", ",", ":") and s.symbol(i + 1, "]", ",", "}"):
            opener = s.inside[i]
            points += opener >= 0 and s.symbol(opener, "[", "{") and not s.symbol(opener - 1, "-")
        if points > s.limits.growth:
            raise s.refuse(
                i,
                f"more than {s.limits.growth} places where lists or texts grow from variables",
                "return the parts and join them in your own program",
            )


def _grows(s: Statement, i: int) -> int:
    token = s.at(i)
    if token is None or token.kind in (Kind.NUMBER, Kind.STRING):
        return 0
    if token.kind is Kind.WORD and (s.symbol(i - 1, ".") or s.symbol(i + 1, ".", "(")):
        return 0
    return 1


# -- regular expressions ---------------------------------------------------------------------------------


def regular_expressions(s: Statement) -> None:
    """The pattern of `=~` is a literal or a parameter that cannot backtrack without end."""
    for i, token in enumerate(s.tokens):
        if not token.is_symbol("=~"):
            continue
        right = s.at(i + 1)
        pattern: object = None
        if right is not None and right.kind is Kind.STRING:
            pattern = right.text[1:-1]
        elif right is not None and right.kind is Kind.PARAMETER:
            pattern = s.parameters.get(right.name)
        after = s.at(i + 2)
        if not isinstance(pattern, str) or (
            after is not None and after.is_symbol("+", "||", "[", ".")
        ):
            raise s.refuse(
                i, "=~ with a computed pattern", "write the pattern as text or a parameter"
            )
        _pattern(s, i, pattern)


def _pattern(s: Statement, i: int, pattern: str) -> None:
    plain = re.sub(r"\\\\", "", pattern)
    if len(pattern) > 200:
        raise s.refuse(i, "a pattern of more than 200 characters", "shorten it, or use CONTAINS")
    if re.search(r"\)\s*[*+{?]", plain) or re.search(r"\\[1-9k]", plain):
        raise s.refuse(
            i, "a repeated group or a back-reference in a pattern", "repeat single characters only"
        )
    if len(re.findall(r"[*+]|\{\d+,\d*\}", plain)) > 4:
        raise s.refuse(i, "more than 4 repetitions in a pattern", "use STARTS WITH and CONTAINS")
