"""What the guard changes in a statement: paths without an end get one, and questions about the schema
are answered from Plait's own, which is the same on every server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graph.cypher import sizes, tree
from graph.cypher.parser import PROCEDURES
from graph.cypher.walk import clauses, paths
from graph.guard.statement import Statement


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` in the place of the statement's characters `start` to `end`."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits`, which do not overlap; of those at one place the first comes first."""
    out, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


def bounded_hops(s: Statement, query: tree.Query) -> tuple[list[Edit], int]:
    """The edits that end `*`, `*2..`, `+` and `{2,}`, and at how many hops at the least; 0: none does.

    Raises: CypherRefused, for a path that says more than `Limits.hops`.
    """
    edits: list[Edit] = []
    ends: list[int] = []
    for path in paths(query):
        for hops in _quantifiers(path):
            most = hops.least if hops.most is None else hops.most
            if most > s.limits.hops:
                raise s.refuse(
                    hops.first,
                    f"a path of up to {most} hops",
                    f"{s.limits.hops} are allowed; shortestPath() finds what is far",
                )
            if hops.most is None:
                ends.append(s.limits.hops if path.selector else max(most, s.limits.open_hops))
                edits.append(_ended(s, hops, ends[-1]))
    return edits, min(ends, default=0)


def _ended(s: Statement, hops: tree.Hops, most: int) -> Edit:
    text = f"*{hops.least}..{most}" if hops.star else f"{{{hops.least},{most}}}"
    return Edit(*span(s, hops.first, hops.last), text)


def _quantifiers(path: tree.Path) -> Iterator[tree.Hops]:
    for element in path.elements:
        if isinstance(element, tree.NodePattern):
            continue
        if element.hops is not None:
            yield element.hops
        if isinstance(element, tree.Group):
            yield from _quantifiers(element.path)


def introspection(s: Statement, query: tree.Query) -> list[Edit]:
    """`CALL db.labels() YIELD label` as UNWIND over the labels there can be."""
    edits = []
    for branch in query.branches:
        for clause in branch:
            if not isinstance(clause, tree.CallProcedure):
                continue
            last = clause is branch[-1]
            if not clause.name and (len(branch) > 1 or len(query.branches) > 1):
                raise s.refuse(
                    clause.at,
                    "CALL without YIELD beside other clauses",
                    f"write YIELD {PROCEDURES[clause.procedure]}",
                )
            name = quoted(clause.name or PROCEDURES[clause.procedure])
            values = ", ".join(f"'{value}'" for value in sizes.INTROSPECTED[clause.procedure])
            text = f"UNWIND [{values}] AS {name}" + (f" RETURN {name}" if last else "")
            edits.append(Edit(*span(s, clause.at, clause.last), text))
    for inner in clauses(query):
        if isinstance(inner, tree.CallProcedure) and not any(inner in b for b in query.branches):
            raise s.refuse(inner.at, "CALL of a procedure in a subquery", "write it outside")
    return edits


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def span(s: Statement, first: int, last: int) -> tuple[int, int]:
    end = s.tokens[last]
    return s.tokens[first].at, end.at + len(end.text)
