"""Everything in a parse tree, however deep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graph.cypher import tree

_NODES = (
    tree.Expr,
    tree.Query,
    tree.Path,
    tree.NodePattern,
    tree.RelationshipPattern,
    tree.Group,
    tree.Item,
    tree.Match,
    tree.Unwind,
    tree.Projection,
    tree.CallQuery,
    tree.CallProcedure,
)


def everything(root: Any) -> Iterator[Any]:
    """`root` and all that is in it, in no order worth relying on."""
    stack = [root]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack.extend(part)
        elif isinstance(part, _NODES):
            yield part
            stack.extend(getattr(part, name) for name in part.__dataclass_fields__)


def clauses(query: tree.Query) -> list[tree.Clause]:
    return [part for part in everything(query) if isinstance(part, tree.Clause)]


def paths(query: tree.Query) -> list[tree.Path]:
    """All paths, those inside expressions and subqueries too; a group's own path is inside its path."""
    inner = {id(part.path) for part in everything(query) if isinstance(part, tree.Group)}
    return [
        part for part in everything(query) if isinstance(part, tree.Path) and id(part) not in inner
    ]
