"""Limit a statement to some repositories: every node that a pattern can bind has to be of one of them.

A boundary, not a filter of results: a count is of those nodes alone, too. Nodes come into a query by
patterns and in no other way, and the parser has seen every pattern; a form in which nodes could be passed
unnamed (a path of several hops) is given a condition of its own, or refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from graph.cypher import tree
from graph.cypher.rewrite import Edit, quoted
from graph.cypher.walk import everything, paths
from graph.guard.statement import Statement

PARAMETER = "plait_repositories"
_NAME = "plait_scope_"


def limited(s: Statement, query: tree.Query) -> list[Edit]:
    """Raises: CypherRefused, for what cannot be limited."""
    return _Scoping(s, query).edits()


class _Scoping:
    def __init__(self, s: Statement, query: tree.Query) -> None:
        self._s = s
        self._query = query
        self._numbers = itertools.count(1)
        self._named = False  # whether a node or relationship got a name of ours

    def edits(self) -> list[Edit]:
        self._reserved()
        edits: list[Edit] = []
        tested = set()
        for part in everything(self._query):
            if isinstance(part, tree.PatternTest):
                tested.add(id(part.path))
                edits += self._test(part.path)
            elif isinstance(part, tree.PatternComprehension):
                self._short(part.path)
            elif isinstance(part, tree.Match):
                edits += self._match(part)
        for path in paths(self._query):
            edits += self._nodes(path)
        if self._named:
            self._no_stars()
        return edits

    def _reserved(self) -> None:
        """Names that begin like ours, and parameters, are not the user's to give."""
        for i, token in enumerate(self._s.tokens):
            if token.name.lower().startswith(("plait_scope_", PARAMETER)):
                raise self._s.refuse(i, f"the name `{token.name[:40]}`", "take another one")

    def _no_stars(self) -> None:
        for part in everything(self._query):
            if isinstance(part, tree.Projection) and part.star >= 0:
                raise self._s.refuse(
                    part.star,
                    "`*` where repositories are named",
                    "name the columns; or give every node and path in the patterns a name",
                )

    # -- nodes -----------------------------------------------------------------------------------------

    def _nodes(self, path: tree.Path) -> Iterator[Edit]:
        for element in path.elements:
            if isinstance(element, tree.NodePattern):
                yield from self._node(element)
            elif isinstance(element, tree.Group):
                yield from self._nodes(element.path)

    def _node(self, node: tree.NodePattern) -> Iterator[Edit]:
        name = quoted(node.name)
        if not node.name:
            name = self._new()
            behind = self._s.tokens[node.at].at + 1
            yield Edit(behind, behind, name)
        condition = f"{name}.repo IN ${PARAMETER}"
        end = self._s.tokens[node.end].at
        if node.where is None:
            yield Edit(end, end, f" WHERE {condition}")
            return
        start = self._s.tokens[node.where_at].at
        yield Edit(start, start, "(")
        yield Edit(end, end, f") AND {condition}")

    def _new(self) -> str:
        self._named = True
        return f"{_NAME}{next(self._numbers)}"

    # -- paths of several hops, whose inner nodes no pattern names ----------------------------------------

    def _match(self, match: tree.Match) -> Iterator[Edit]:
        conditions = []
        for path in match.paths:
            if not any(_repeated(path)):
                continue
            name = quoted(path.name)
            if not path.name:
                name = self._new()
                start = self._s.tokens[path.at].at
                yield Edit(start, start, f"{name} = ")
            each = self._new()
            conditions.append(f"all({each} IN nodes({name}) WHERE {each}.repo IN ${PARAMETER})")
        if not conditions:
            return
        condition = " AND ".join(conditions)
        last = self._s.tokens[match.end - 1]
        end = last.at + len(last.text)
        if match.where is None:
            yield Edit(end, end, f" WHERE {condition}")
            return
        start = self._s.tokens[match.where_at].at
        yield Edit(start, start, "(")
        yield Edit(end, end, f") AND {condition}")

    # -- patterns in expressions -----------------------------------------------------------------------

    def _short(self, path: tree.Path) -> None:
        for hop in _repeated(path):
            raise self._s.refuse(
                hop.at,
                "a path of several hops in an expression where repositories are named",
                "write EXISTS { MATCH … } or COLLECT { MATCH … RETURN … }",
            )

    def _test(self, path: tree.Path) -> Iterator[Edit]:
        """`WHERE (a)-->(:B)` as EXISTS { … }: a bare pattern may not name its nodes."""
        self._short(path)
        if path.selector or (
            self._s.symbol(path.at - 1, "(") and self._s.word(path.at - 2, "EXISTS")
        ):
            raise self._s.refuse(
                path.at,
                "a function of a pattern where repositories are named",
                "write EXISTS { … }",
            )
        start = self._s.tokens[path.at].at
        last = self._s.tokens[path.end - 1]
        yield Edit(start, start, "EXISTS { ")
        yield Edit(last.at + len(last.text), last.at + len(last.text), " }")


def _repeated(path: tree.Path) -> Iterator[tree.RelationshipPattern]:
    """The relationships that stand for several, at any depth."""
    for element in path.elements:
        if isinstance(element, tree.RelationshipPattern) and element.hops is not None:
            yield element
        elif isinstance(element, tree.Group):
            yield from _repeated(element.path)
