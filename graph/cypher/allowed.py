"""The functions there are; others are refused by name."""

from __future__ import annotations

from graph.cypher import tree
from graph.cypher.walk import everything
from graph.guard.statement import Statement
from graph.guard.words import FUNCTIONS


def only_known_functions(s: Statement, query: tree.Query) -> None:
    """Raises: CypherRefused, for a function that is not in the list, or too many subqueries."""
    subqueries = 0
    for part in everything(query):
        if isinstance(part, tree.Call) and part.name not in FUNCTIONS:
            raise s.refuse(
                part.at,
                f"the function `{part.name}`",
                "docs/cypher-guard.md lists the functions there are",
            )
        subqueries += isinstance(part, tree.Subquery | tree.CallQuery)
    if subqueries > s.limits.subqueries:
        raise s.refuse(0, f"more than {s.limits.subqueries} subqueries", "split the question")
