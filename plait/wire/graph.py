"""Graph values ↔ messages: typed cells with nodes, edges and paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plait.domain.answers.graph import GraphAnswer, GraphEdge, GraphNode, GraphPath
from plait.v1 import graph_pb2
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import items, read_times


def graph_value(value: Any) -> graph_pb2.GraphValue:
    """Raises: TypeError, for a value no graph query returns; OverflowError, past 64 bits."""
    match value:
        case None:
            return graph_pb2.GraphValue(null_value=graph_pb2.GRAPH_NULL_UNSPECIFIED)
        case bool():
            return graph_pb2.GraphValue(bool_value=value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise OverflowError(f"{value} does not fit in 64 bits")
            return graph_pb2.GraphValue(int_value=value)
        case float():
            return graph_pb2.GraphValue(double_value=value)
        case str():
            return graph_pb2.GraphValue(string_value=value)
        case bytes() | bytearray():
            return graph_pb2.GraphValue(bytes_value=bytes(value))
        case list() | tuple():
            items = graph_pb2.GraphList(values=[graph_value(item) for item in value])
            return graph_pb2.GraphValue(list_value=items)
        case GraphNode():
            return graph_pb2.GraphValue(node_value=graph_node(value))
        case GraphEdge():
            return graph_pb2.GraphValue(edge_value=graph_edge(value))
        case GraphPath():
            return graph_pb2.GraphValue(path_value=graph_path(value))
        case Mapping():
            return graph_pb2.GraphValue(map_value=graph_pb2.GraphMap(entries=graph_map(value)))
    raise TypeError(f"{type(value).__name__} is not a graph value")


def graph_map(data: Mapping[str, Any]) -> dict[str, graph_pb2.GraphValue]:
    return {key: graph_value(item) for key, item in data.items()}


def graph_node(node: GraphNode) -> graph_pb2.GraphNode:
    return graph_pb2.GraphNode(
        id=node.id, labels=node.labels, properties=graph_map(node.properties)
    )


def graph_edge(edge: GraphEdge) -> graph_pb2.GraphEdge:
    return graph_pb2.GraphEdge(
        relation=edge.relation,
        source=edge.source,
        target=edge.target,
        properties=graph_map(edge.properties),
    )


def graph_path(path: GraphPath) -> graph_pb2.GraphPath:
    return graph_pb2.GraphPath(
        nodes=[graph_node(node) for node in path.nodes],
        edges=[graph_edge(edge) for edge in path.edges],
    )


def value_of(message: graph_pb2.GraphValue) -> Any:
    match message.WhichOneof("kind"):
        case None | "null_value":
            return None
        case "list_value":
            return [value_of(item) for item in message.list_value.values]
        case "map_value":
            return map_of(message.map_value.entries)
        case "node_value":
            return node_of(message.node_value)
        case "edge_value":
            return edge_of(message.edge_value)
        case "path_value":
            return path_of(message.path_value)
        case kind:
            return getattr(message, kind)


def map_of(entries: Mapping[str, graph_pb2.GraphValue]) -> dict[str, Any]:
    return {key: value_of(item) for key, item in entries.items()}


def node_of(message: graph_pb2.GraphNode) -> GraphNode:
    return GraphNode(message.id, tuple(message.labels), map_of(message.properties))


def edge_of(message: graph_pb2.GraphEdge) -> GraphEdge:
    return GraphEdge(message.relation, message.source, message.target, map_of(message.properties))


def path_of(message: graph_pb2.GraphPath) -> GraphPath:
    return GraphPath(
        tuple(node_of(node) for node in message.nodes),
        tuple(edge_of(edge) for edge in message.edges),
    )


# -- answers -----------------------------------------------------------------------------------------


def answer(value: GraphAnswer) -> pb.GraphQueryResponse:
    """Raises: TypeError, OverflowError, for a cell outside the contract."""
    return pb.GraphQueryResponse(
        columns=value.columns,
        rows=[graph_pb2.GraphRow(cells=[graph_value(c) for c in row]) for row in value.rows],
        nodes=[graph_node(node) for node in value.nodes],
        edges=[graph_edge(edge) for edge in value.edges],
        truncated=value.truncated,
        revisions=items.revisions(value.revisions),
        degraded=items.degraded(value.degraded),
        took_ms=value.took_ms,
        as_of=read_times.resolved(value.as_of),
    )


def answer_of(message: pb.GraphQueryResponse) -> GraphAnswer:
    return GraphAnswer(
        columns=tuple(message.columns),
        rows=tuple(tuple(value_of(cell) for cell in row.cells) for row in message.rows),
        nodes=tuple(node_of(node) for node in message.nodes),
        edges=tuple(edge_of(edge) for edge in message.edges),
        truncated=message.truncated,
        revisions=items.revisions_of(message.revisions),
        degraded=items.degraded_of(message.degraded),
        took_ms=message.took_ms,
        as_of=read_times.resolved_of(message.as_of),
    )
