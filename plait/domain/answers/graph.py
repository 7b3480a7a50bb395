"""What a graph query answers: typed cells, with nodes and edges as the values they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.answers.search import Degradation, RepositoryRevision
from plait.domain.memory import NOW, AsOf


@dataclass(frozen=True, slots=True)
class GraphNode:
    id: str
    labels: tuple[str, ...]
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraphEdge:
    relation: str
    source: str  # node ids, never the server's own
    target: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GraphPath:
    """`nodes` is one longer than `edges`; an edge may have been walked against its direction."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


@dataclass(frozen=True, slots=True)
class GraphResult:
    """Rows as typed cells (None, bool, int, float, str, bytes, list, dict, GraphNode, GraphEdge,
    GraphPath), and the distinct nodes and edges that occur in them."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    nodes: Sequence[GraphNode]
    edges: Sequence[GraphEdge]
    truncated: bool
    took_ms: float
    capped_hops: int = (
        0  # paths that the query left open were followed this far; 0: there were none
    )


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Rows of typed cells: None, bool, int, float, str, bytes, list, dict, GraphNode, GraphEdge, GraphPath."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    truncated: bool
    revisions: tuple[RepositoryRevision, ...]
    degraded: tuple[Degradation, ...]
    took_ms: float
    as_of: AsOf = NOW

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The rows as mappings by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]
