"""The guard's rule on regular expressions: none that backtracks without end."""

from __future__ import annotations

import re

from graph.guard.statement import Statement
from graph.guard.tokens import Kind


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
