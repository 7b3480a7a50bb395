"""A tree-sitter grammar, and the preorder walk over the kinds of nodes an extractor asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tree_sitter import Language, Node, Parser, Query, QueryCursor

_ERROR = 0xFFFF  # the number of the kind of error nodes, which have no name to look up

Handlers = Mapping[str, Callable[[Node], None]]

# A query's states keep their depth in 16 bits: on a tree deeper than 65,535 matching turned quadratic
# (50,000 calls in a chain: 14 s; with this limit 0.02 s). Nothing below it is looked at.
_DEEPEST = 30_000

# Matching looks ahead among a node's children for a named one: quadratic where an error left a flat
# heap of brackets (200,000 `{`: 17 s; 20,000: 0.2 s). Such a heap says nothing.
_HEAP = 20_000


def _place(node: Node) -> tuple[int, int]:
    """Sorts nodes as a preorder walk meets them."""
    return node.start_byte, -node.end_byte


class Grammar:
    """Parses, and finds nodes of the given kinds in C: a walk in Python costs three times the parse."""

    def __init__(
        self, language: Language, kinds: Iterable[str], patterns: Mapping[str, str] | None = None
    ) -> None:
        """`kinds` that the grammar does not have are left out. `patterns`: by kind, a query that captures
        fewer of it as `@n`."""
        self._parser = Parser(language)
        numbers = {kind: language.id_for_node_kind(kind, True) for kind in kinds}
        self._kinds = {number: kind for kind, number in numbers.items() if number}
        if "ERROR" in numbers:
            self._kinds[_ERROR] = "ERROR"
        patterns_of = {
            kind: (patterns or {}).get(kind, f"({kind}) @n") for kind in self._kinds.values()
        }
        self._query = Query(language, "\n".join(patterns_of[kind] for kind in sorted(patterns_of)))
        self._unordered = bool(patterns)  # a pattern with children matches only behind them

    def parse(self, source: bytes) -> Node:
        return self._parser.parse(source).root_node

    def walk(self, root: Node, handlers: Handlers, leave: Callable[[int], None]) -> None:
        """Call `leave(start byte)`, then its kind's handler, for each node in document order."""
        if root.has_error and _is_heap(root):
            return
        table = {number: handlers[kind] for number, kind in self._kinds.items()}
        cursor = QueryCursor(self._query)
        cursor.set_max_start_depth(_DEEPEST)
        found = [
            captured["n"][0] for _, captured in cursor.matches(root)
        ]  # captures() has no order
        if self._unordered:
            found.sort(key=_place)
        for node in found:
            leave(node.start_byte)
            table[node.kind_id](node)


def _is_heap(root: Node) -> bool:
    """True for a tree that is, or directly holds, one error of very many parts."""
    if root.is_error and root.child_count > _HEAP:
        return True
    return any(child.is_error and child.child_count > _HEAP for child in root.children)
