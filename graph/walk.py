"""Breadth-first templates: one query a level, so that each edge is looked at once.

A variable-length pattern enumerates paths: over a hub their number explodes with depth, on ArcadeDB
at three hops already (63 ms), and `count(DISTINCT …)` saves nothing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph.reader import Reader
from graph.templates import Template
from plait.domain.deadline import Deadline
from plait.ports import GraphEdge, GraphNode, GraphResult

_FRONTIER = 2_000  # nodes a query: keeps one answer's size and time small


async def walk(
    template: Template,
    given: Mapping[str, Any],
    reader: Reader,
    *,
    max_rows: int,
    deadline: Deadline,
) -> GraphResult:
    """Rows `(depth, …)` of what is reached, nearest first, by id within a depth; the start left out.

    Raises: as `Reader.run`.
    """
    text = template.text(given)
    seen = {given["symbol"]}
    frontier = [given["symbol"]]
    columns: tuple[str, ...] = ()
    rows: list[list[Any]] = []
    took_ms = 0.0
    truncated = False
    for depth in range(1, int(given[template.walk]) + 1):
        level: dict[str, list[Any]] = {}
        for start in range(0, len(frontier), _FRONTIER):
            part = frontier[start : start + _FRONTIER]
            # Room for what is known already, so that a level is never cut short by repeats.
            room = max_rows - len(rows) + len(seen) + 1
            result = await reader.run(text, {"frontier": part}, max_rows=room, deadline=deadline)
            took_ms += result.took_ms
            truncated = truncated or result.truncated
            columns = ("depth", *result.columns[1:])
            for at, *cells in result.rows:
                if at not in seen:
                    level.setdefault(at, [depth, *cells])
        rows += sorted(level.values(), key=_node_id)
        seen |= level.keys()
        frontier = list(level)
        if len(rows) > max_rows:
            truncated = True
        if not frontier or truncated:
            break
    rows = rows[:max_rows]
    return GraphResult(columns, rows, *_distinct(rows), truncated, took_ms)


def _node_id(row: list[Any]) -> str:
    return row[1].id if isinstance(row[1], GraphNode) else ""


def _distinct(rows: list[list[Any]]) -> tuple[list[GraphNode], list[GraphEdge]]:
    nodes: dict[str, GraphNode] = {}
    edges: list[GraphEdge] = []
    for row in rows:
        for cell in row:
            if isinstance(cell, GraphNode):
                nodes.setdefault(cell.id, cell)
            elif isinstance(cell, GraphEdge):
                edges.append(cell)
    return list(nodes.values()), edges
