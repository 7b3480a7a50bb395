"""What each template of code answers: a function of a code graph and the checked parameters. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from plait.domain.answers.graph import GraphEdge, GraphPath, GraphResult
from plait.domain.graph import Relation
from plait.ports import CodeGraph
from plait.retrieval.code_graph.templates import lookup, steps
from plait.retrieval.code_graph.templates.cells import Cells, Limits, result

Given = Mapping[str, Any]
Row = list[Any]
Answer = tuple[tuple[str, ...], Iterator[Row]]

# How deep things lie in each other: a file holds a module, that a class, that another …
_IN_FILE, _IN_SYMBOL, _IN_IMPORTED = 7, 6, 2


def answer(graph: CodeGraph, name: str, given: Given, limits: Limits) -> GraphResult:
    """The template `name` of code; `given` as `Template.check` returns it.

    Raises: UnknownSymbol, AmbiguousSymbol, ResultTooLarge.
    """
    started = time.perf_counter()
    columns, rows = _ANSWERS[name](graph, given)
    return result(columns, rows, limits, started)


def _callers(graph: CodeGraph, given: Given) -> Answer:
    found = steps.into(graph, [lookup.node(graph, given["symbol"])], Relation.CALLS)
    cells = Cells(graph)
    ordered = steps.taken(found, _by_id(graph, found.source.tolist()))
    made = ([cells.node(s), call, _lines(call)] for s, _, call in cells.edges(ordered))
    return ("caller", "call", "lines"), made


def _callees(graph: CodeGraph, given: Given) -> Answer:
    found = steps.out_of(graph, [lookup.node(graph, given["symbol"])], Relation.CALLS)
    cells = Cells(graph)
    ordered = steps.taken(found, _by_id(graph, found.target.tolist()))
    made = ([cells.node(t), call, _lines(call)] for _, t, call in cells.edges(ordered))
    return ("callee", "call", "lines"), made


def _back(relation: Relation, node: str, edge: str, graph: CodeGraph, given: Given) -> Answer:
    """What leads to a symbol, and what leads there, nearest first."""
    start, cells = lookup.node(graph, given["symbol"]), Cells(graph)
    made = (
        [distance, cells.node(source), one]
        for distance, level in steps.levels_into(graph, start, relation, given["depth"])
        for source, _, one in cells.edges(level)
    )
    return ("depth", node, edge), made


def _path(graph: CodeGraph, given: Given) -> Answer:
    source, target = (lookup.node(graph, given[end]) for end in ("source", "target"))
    cells = Cells(graph)

    def rows() -> Iterator[Row]:
        chain = [
            one
            for step in steps.shortest(graph, source, target, given["depth"])
            for one in cells.edges(step)
        ]
        if chain:
            nodes = [cells.node(source), *(cells.node(end) for _, end, _ in chain)]
            path = GraphPath(tuple(nodes), tuple(edge for _, _, edge in chain))
            yield [[node.id for node in nodes], path, len(chain)]

    return ("ids", "chain", "hops"), rows()


def _tests_of(graph: CodeGraph, given: Given) -> Answer:
    start, cells = lookup.node(graph, given["symbol"]), Cells(graph)
    parts = sorted(steps.inside(graph, start, _IN_SYMBOL), key=graph.ids.__getitem__)
    found = steps.out_of(graph, parts, Relation.VALIDATED_BY)
    by_test: dict[int, list[int]] = {}
    for place, test in enumerate(found.target.tolist()):
        by_test.setdefault(test, []).append(place)

    def rows() -> Iterator[Row]:
        for test in sorted(by_test, key=graph.ids.__getitem__):
            places = by_test[test]
            ((_, _, covers),) = cells.edges(steps.taken(found, places[:1]))
            exercised = [cells.id(part) for part in found.source[places].tolist()]
            yield [cells.node(test), covers, exercised]

    return ("test", "covers", "exercised"), rows()


def _outline(graph: CodeGraph, given: Given) -> Answer:
    file, cells = lookup.node(graph, given["file"], files=True), Cells(graph)
    found = steps.out_of(graph, steps.inside(graph, file, _IN_FILE), Relation.CONTAINS)
    pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    pairs.sort(key=lambda pair: (graph.lines[pair[1]], graph.ids[pair[1]], graph.ids[pair[0]]))
    made = ([cells.node(symbol), cells.id(parent)] for parent, symbol in pairs)
    return ("symbol", "parent"), made


def _importers(graph: CodeGraph, given: Given) -> Answer:
    start, cells = lookup.node(graph, given["symbol"]), Cells(graph)
    parts = steps.inside(graph, start, _IN_IMPORTED)
    found = steps.into(graph, parts, Relation.IMPORTS)
    pairs = list(zip(found.source.tolist(), found.target.tolist(), strict=True))
    order = sorted(range(len(pairs)), key=lambda at: [graph.ids[end] for end in pairs[at]])
    made = (
        [cells.node(importer), imports, cells.id(imported)]
        for importer, imported, imports in cells.edges(steps.taken(found, order))
    )
    return ("importer", "imports", "imported"), made


def _by_id(graph: CodeGraph, rows: list[int]) -> list[int]:
    """The places of `rows` in the order of their ids."""
    return sorted(range(len(rows)), key=lambda place: graph.ids[rows[place]])


def _lines(edge: GraphEdge) -> list[int] | None:
    lines: list[int] | None = edge.properties.get("lines")
    return lines


_ANSWERS: Mapping[str, Callable[[CodeGraph, Given], Answer]] = {
    "callees": _callees,
    "callers": _callers,
    "impact": partial(_back, Relation.CALLS, "caller", "call"),
    "importers": _importers,
    "outline": _outline,
    "overrides": partial(_back, Relation.OVERRIDES, "method", "overrides"),
    "path": _path,
    "subclasses": partial(_back, Relation.INHERITS, "subclass", "inherits"),
    "tests_of": _tests_of,
}
