"""Values ↔ protobuf messages, for both ends of the wire: each pair is the other's inverse.

Nothing is checked here beyond what the types say; the server checks requests in `server/grpc/messages/parse.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from google.protobuf.struct_pb2 import Struct
from google.protobuf.struct_pb2 import Value as StructValue
from google.protobuf.timestamp_pb2 import Timestamp

from plait.domain.answers import GraphEdge, GraphNode, GraphPath
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Filter,
    Item,
    ItemId,
    Outcome,
    Revision,
)
from plait.v1 import episode_pb2, graph_pb2, types_pb2
from plait.wire.sendable import number

COLLECTIONS: Mapping[Collection, types_pb2.Collection.ValueType] = {
    Collection.FILES: types_pb2.COLLECTION_FILES,
    Collection.DIFFS: types_pb2.COLLECTION_DIFFS,
    Collection.PLANS: types_pb2.COLLECTION_PLANS,
    Collection.REFLECTIONS: types_pb2.COLLECTION_REFLECTIONS,
    Collection.TESTS: types_pb2.COLLECTION_TESTS,
    Collection.MEMORIES: types_pb2.COLLECTION_MEMORIES,
}
ARTIFACT_KINDS: Mapping[ArtifactKind, episode_pb2.ArtifactKind.ValueType] = {
    ArtifactKind.PLAN: episode_pb2.ARTIFACT_KIND_PLAN,
    ArtifactKind.DIFF: episode_pb2.ARTIFACT_KIND_DIFF,
    ArtifactKind.REFLECTION: episode_pb2.ARTIFACT_KIND_REFLECTION,
    ArtifactKind.TEST_RESULT: episode_pb2.ARTIFACT_KIND_TEST_RESULT,
    ArtifactKind.NOTE: episode_pb2.ARTIFACT_KIND_NOTE,
    ArtifactKind.TURN: episode_pb2.ARTIFACT_KIND_TURN,
}
STATUSES: Mapping[str, episode_pb2.OutcomeStatus.ValueType] = {
    "success": episode_pb2.OUTCOME_STATUS_SUCCESS,
    "failure": episode_pb2.OUTCOME_STATUS_FAILURE,
    "partial": episode_pb2.OUTCOME_STATUS_PARTIAL,
    "unknown": episode_pb2.OUTCOME_STATUS_UNKNOWN,
}
COLLECTION_OF = {number: collection for collection, number in COLLECTIONS.items()}
ARTIFACT_KIND_OF = {number: kind for kind, number in ARTIFACT_KINDS.items()}
STATUS_OF: Mapping[episode_pb2.OutcomeStatus.ValueType, str] = {
    episode_pb2.OUTCOME_STATUS_UNSPECIFIED: "unknown",
    **{number: status for status, number in STATUSES.items()},
}

# Whole numbers up to here are the same number as a double; protobuf's Struct has doubles only.
_EXACT = 2**53


# -- times and JSON ----------------------------------------------------------------------------------


def timestamp(time: datetime | None) -> Timestamp | None:
    """Microseconds survive; `time` must know its offset."""
    if time is None:
        return None
    out = Timestamp()
    out.FromDatetime(time.astimezone(UTC))
    return out


def datetime_of(message: Timestamp) -> datetime:
    """Raises: ValueError, outside the years 1 to 9999."""
    return message.ToDatetime(tzinfo=UTC)


def struct(data: Mapping[str, Any]) -> Struct:
    out = Struct()
    out.update(_jsonable(data))
    return out


def _jsonable(value: Any) -> Any:
    """What Struct takes: stores may hand out times, ids and tuples in `meta`."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


def dict_of(message: Struct) -> dict[str, Any]:
    """Whole numbers come back as `int`."""
    return {key: _json_of(value) for key, value in message.fields.items()}


def _json_of(value: StructValue) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return dict_of(value.struct_value)
    if kind == "list_value":
        return [_json_of(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _EXACT else number
    return None if kind in (None, "null_value") else getattr(value, kind)


# -- graph values ------------------------------------------------------------------------------------


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


# -- items, filters, revisions -------------------------------------------------------------------------


def item(value: Item) -> types_pb2.Item:
    return types_pb2.Item(
        id=str(value.id),
        collection=COLLECTIONS[value.collection],
        repository=value.repo,
        kind=value.kind,
        path=value.path,
        symbol=value.symbol,
        language=value.language,
        start_line=value.start_line,
        end_line=value.end_line,
        is_test=value.is_test,
        content=value.content,
        meta=struct(value.meta) if value.meta else None,
        tags=value.tags,
        time=timestamp(value.ts),
    )


def item_of(message: types_pb2.Item) -> Item:
    return Item(
        id=ItemId(UUID(message.id)),
        collection=COLLECTION_OF[message.collection],
        repo=message.repository,
        kind=message.kind,
        path=message.path,
        symbol=message.symbol,
        language=message.language,
        start_line=message.start_line,
        end_line=message.end_line,
        content=message.content,
        ts=datetime_of(message.time),
        meta=dict_of(message.meta),
        tags=tuple(message.tags),
        is_test=message.is_test,
    )


def filter_(where: Filter) -> types_pb2.Filter:
    """Without the tenant and the times, which travel beside it."""
    return types_pb2.Filter(
        repositories=where.repos,
        all_repositories=where.all_repos,
        collections=[number(COLLECTIONS, c, "collections") for c in where.collections],
        kinds=where.kinds,
        languages=where.languages,
        path_glob=where.path_glob,
        tags_any=where.tags_any,
        tags_all=where.tags_all,
        since=timestamp(where.since),
        until=timestamp(where.until),
        agent_id=where.agent_id,
        session_key=where.session_key,
    )


def filter_of(message: types_pb2.Filter) -> Filter:
    """Raises: KeyError, for a collection this version doesn't know; ValueError, for a time."""
    collections = tuple(COLLECTION_OF[c] for c in message.collections)
    return Filter(
        repos=tuple(message.repositories),
        collections=collections or (Collection.FILES,),
        kinds=tuple(message.kinds),
        languages=tuple(message.languages),
        path_glob=message.path_glob,
        tags_any=tuple(message.tags_any),
        tags_all=tuple(message.tags_all),
        since=datetime_of(message.since) if message.HasField("since") else None,
        until=datetime_of(message.until) if message.HasField("until") else None,
        agent_id=message.agent_id,
        session_key=message.session_key,
        all_repos=message.all_repositories,
    )


def revision(value: Revision) -> types_pb2.RepositoryRevision:
    return types_pb2.RepositoryRevision(
        repository=value.repo,
        revision=value.number,
        graph_revision=value.graph_number,
        embedded=value.embedded,
        total=value.chunks,
    )


# -- episodes -------------------------------------------------------------------------------------------


def episode(value: Episode) -> episode_pb2.Episode:
    """Without the request id, which travels beside it."""
    return episode_pb2.Episode(
        repository=value.repo,
        outcome=outcome(value.outcome),
        artifacts=[
            episode_pb2.Artifact(
                kind=number(ARTIFACT_KINDS, a.kind, "artifacts.kind"),
                content=a.content,
                path=a.path,
                meta=struct(a.meta) if a.meta else None,
            )
            for a in value.artifacts
        ],
        evidence=[
            episode_pb2.Evidence(name=e.name, media_type=e.media_type, content=e.body)
            for e in value.evidence
        ],
        agent_id=value.agent_id,
        session_key=value.session_key,
        tags=value.tags,
        start_time=timestamp(value.started_at),
    )


def episode_of(message: episode_pb2.Episode, request_id: str) -> Episode:
    """Unchecked. Raises: KeyError, for an enum value unknown or unset; ValueError, for a time."""
    return Episode(
        request_id=request_id,
        repo=message.repository,
        outcome=outcome_of(message.outcome),
        artifacts=tuple(
            Artifact(ARTIFACT_KIND_OF[a.kind], a.content, a.path, dict_of(a.meta))
            for a in message.artifacts
        ),
        agent_id=message.agent_id,
        session_key=message.session_key,
        tags=tuple(message.tags),
        started_at=datetime_of(message.start_time) if message.HasField("start_time") else None,
        evidence=tuple(Evidence(e.name, e.media_type, e.content) for e in message.evidence),
    )


def outcome(value: Outcome) -> episode_pb2.Outcome:
    return episode_pb2.Outcome(
        status=number(STATUSES, value.status, "outcome.status"),
        summary=value.summary,
        metrics=value.metrics,
        commit=value.commit,
        branch=value.branch,
    )


def outcome_of(message: episode_pb2.Outcome) -> Outcome:
    """Raises: KeyError, for a status unknown."""
    return Outcome(
        status=STATUS_OF[message.status],
        summary=message.summary,
        metrics=dict(message.metrics),
        commit=message.commit,
        branch=message.branch,
    )
