"""Bolt values to the port's cells: our node ids, never the server's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from plait.ports import GraphEdge, GraphNode, GraphPath

_CELL = 16  # bytes counted for a scalar; an estimate that need not be better


class Converter:
    """Converts the cells of one result. `names`: the server's id of a node → our id.

    A relationship that comes without its ends knows only their server ids: `unnamed` lists the ones
    to look up before `cell` is called.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.unnamed: set[str] = set()
        self.nodes: dict[str, GraphNode] = {}
        self.edges: dict[str, GraphEdge] = {}

    def survey(self, value: Any) -> int:
        """Note the nodes and relationships in `value`; its size in bytes, roughly."""
        if isinstance(value, str):
            return _CELL + len(value)
        if isinstance(value, (bytes, bytearray)):
            return _CELL + len(value)
        if isinstance(value, Node):
            self._name(value)
            return _CELL + sum(self.survey(v) + len(k) for k, v in value.items())
        if isinstance(value, Relationship):
            for end in (value.start_node, value.end_node):
                if end is not None:
                    self._name(end)
            return _CELL + sum(self.survey(v) + len(k) for k, v in value.items())
        if isinstance(value, Path):
            parts: Iterable[Any] = (*value.nodes, *value.relationships)
            return _CELL + sum(self.survey(part) for part in parts)
        if isinstance(value, Mapping):
            return _CELL + sum(self.survey(v) + len(str(k)) for k, v in value.items())
        if isinstance(value, (list, tuple)):
            return _CELL + sum(self.survey(v) for v in value)
        return _CELL

    def _name(self, node: Node) -> None:
        if "id" in node:
            self.names[node.element_id] = str(node["id"])
            self.unnamed.discard(node.element_id)
        elif node.element_id not in self.names:
            self.unnamed.add(node.element_id)

    def cell(self, value: Any) -> Any:
        """None, bool, int, float, str, bytes, list, dict, GraphNode, GraphEdge or GraphPath.

        A time is ISO 8601 text; a point a dict.
        """
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, Relationship):
            return self._edge(value)
        if isinstance(value, Path):
            return GraphPath(
                tuple(self._node(node) for node in value.nodes),
                tuple(self._edge(edge) for edge in value.relationships),
            )
        if isinstance(value, Mapping):
            return {str(k): self.cell(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)) and not isinstance(value, (Duration, Point)):
            return [self.cell(v) for v in value]
        return _scalar(value)

    def _node(self, node: Node) -> GraphNode:
        made = GraphNode(
            id=self.names.get(node.element_id, ""),
            labels=tuple(sorted(node.labels)),
            properties={k: self.cell(v) for k, v in node.items()},
        )
        return self.nodes.setdefault(node.element_id, made)

    def _named(self, node: Node | None) -> str:
        # `if node` would ask for its length: a node without properties is false.
        return "" if node is None else self.names.get(node.element_id, "")

    def _edge(self, edge: Relationship) -> GraphEdge:
        start, end = edge.start_node, edge.end_node
        made = GraphEdge(
            relation=edge.type,
            source=self._named(start),
            target=self._named(end),
            properties={k: self.cell(v) for k, v in edge.items()},
        )
        return self.edges.setdefault(edge.element_id, made)


def _scalar(value: Any) -> Any:
    if isinstance(value, (Date, DateTime, Time, Duration)):
        return value.iso_format()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Point):
        return {"srid": value.srid, "coordinates": [float(c) for c in value]}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
