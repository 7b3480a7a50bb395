"""Rows of a code graph as the cells of an answer, with its limits of rows and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.answers.graph import GraphEdge, GraphNode, GraphPath, GraphResult
from plait.domain.errors import ResultTooLarge
from plait.domain.graph import Label
from plait.ports import CodeGraph
from plait.retrieval.code_graph.templates.lookup import named
from plait.retrieval.code_graph.templates.steps import Steps

_BOTH = (Label.FUNCTION.value, Label.TEST.value)


@dataclass(frozen=True, slots=True)
class Limits:
    max_rows: int
    max_bytes: int


class Cells:
    """Nodes and edges of one answer, each made once."""

    def __init__(self, graph: CodeGraph) -> None:
        self._graph = graph
        self._nodes: dict[int, GraphNode] = {}

    def id(self, row: int) -> str:
        return f"{self._graph.repo}:{self._graph.ids[row]}"

    def node(self, row: int) -> GraphNode:
        known = self._nodes.get(row)
        if known is None:
            known = self._nodes[row] = self._node(row)
        return known

    def _node(self, row: int) -> GraphNode:
        graph = self._graph
        label = graph.labels[graph.label[row]]
        return GraphNode(
            self.id(row),
            _BOTH if label == Label.TEST else (label,),
            {
                "id": self.id(row),
                "name": graph.names[row],
                "qualified_name": named(graph, row),
                "path": graph.paths[row],
                "start_line": int(graph.lines[row]),
                "end_line": int(graph.end_lines[row]),
                "language": graph.words[graph.language[row]],
                "kind": graph.words[graph.kind[row]],
                "repo": graph.repo,
            },
        )

    def edges(self, steps: Steps) -> Iterator[tuple[int, int, GraphEdge]]:
        """Source and target rows with each edge. One that no rule bound has no properties."""
        columns = (steps.source.tolist(), steps.target.tolist(), steps.edge.tolist())
        for source, target, edge, weight in zip(*columns, steps.weight.tolist(), strict=True):
            sites = self._graph.sites(edge)
            confidence = round(weight, 6)
            properties: dict[str, Any] = {}
            if sites.lines or sites.resolver or confidence != 1.0:
                properties = {
                    "lines": list(sites.lines),
                    "resolver": sites.resolver,
                    "confidence": confidence,
                }
            made = GraphEdge(steps.relation.value, self.id(source), self.id(target), properties)
            yield source, target, made


def result(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], limits: Limits, started: float
) -> GraphResult:
    """At most `limits.max_rows` of `rows`, which are made as they are asked for. `started`: by
    `time.perf_counter`. Raises: ResultTooLarge."""
    kept: list[Sequence[Any]] = []
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str, str, int], GraphEdge] = {}
    size, more = 0, False
    for row in rows:
        if len(kept) == limits.max_rows:
            more = True
            break
        size += sum(_noted(cell, nodes, edges) for cell in row)
        if size > limits.max_bytes:
            raise ResultTooLarge(
                f"the result passes {limits.max_bytes} bytes after {len(kept)} rows; "
                "ask for fewer rows, or a smaller depth",
                limit_bytes=limits.max_bytes,
                rows=len(kept),
            )
        kept.append(row)
    took_ms = (time.perf_counter() - started) * 1e3
    return GraphResult(
        tuple(columns), kept, list(nodes.values()), list(edges.values()), more, took_ms
    )


def _noted(
    cell: Any, nodes: dict[str, GraphNode], edges: dict[tuple[str, str, str, int], GraphEdge]
) -> int:
    """Bytes of `cell`, roughly; its nodes and edges are added to those of the answer."""
    match cell:
        case GraphNode():
            nodes.setdefault(cell.id, cell)
            return _size(cell.properties)
        case GraphEdge():
            link = cell.properties.get("link_id", 0)
            edges.setdefault((cell.relation, cell.source, cell.target, link), cell)
            return _size(cell.properties)
        case GraphPath():
            return sum(_noted(part, nodes, edges) for part in (*cell.nodes, *cell.edges))
    return _size(cell)


def _size(value: Any) -> int:
    """Roughly what it takes in a message; written out, as that is done at C's speed."""
    return len(repr(value))
