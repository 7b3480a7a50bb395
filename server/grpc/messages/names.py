"""Names in a graph answer as the caller's tenant knows them: ids, `repo` and what lies inside cells."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plait.domain.answers.graph import GraphEdge, GraphNode, GraphPath, GraphResult
from plait.domain.scope import DEFAULT_TENANT


def result_out(tenant: str, result: GraphResult) -> GraphResult:
    """`result` without the tenant before its repositories' names."""
    if tenant == DEFAULT_TENANT:
        return result
    prefix = f"{tenant}@"
    return replace(
        result,
        rows=tuple(tuple(_out(cell, prefix) for cell in row) for row in result.rows),
        nodes=tuple(_out(node, prefix) for node in result.nodes),
        edges=tuple(_out(edge, prefix) for edge in result.edges),
    )


def _out(value: Any, prefix: str) -> Any:
    match value:
        case str():
            return value.removeprefix(prefix)
        case GraphNode():
            return replace(
                value,
                id=value.id.removeprefix(prefix),
                properties=_named(value.properties, prefix),
            )
        case GraphEdge():
            return replace(
                value,
                source=value.source.removeprefix(prefix),
                target=value.target.removeprefix(prefix),
                properties=_named(value.properties, prefix),
            )
        case GraphPath():
            return GraphPath(
                tuple(_out(node, prefix) for node in value.nodes),
                tuple(_out(edge, prefix) for edge in value.edges),
            )
        case list():
            return [_out(item, prefix) for item in value]
        case dict():
            return {key: _out(item, prefix) for key, item in value.items()}
    return value


def _named(properties: Any, prefix: str) -> dict[str, Any]:
    """`id`, `repo` and a repository's own `name` carry the qualified name; code's text stays as it is."""
    return {
        key: item.removeprefix(prefix)
        if isinstance(item, str) and key in ("id", "repo", "name", "qualified_name")
        else item
        for key, item in properties.items()
    }
