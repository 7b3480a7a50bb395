"""Calls of KnowledgeService but for recalls, and the health check, as values."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.lazy import lazy_module
from plait.domain.errors import InvalidInput
from plait.domain.memory import NOW
from plait.wire.sendable import sendable

if TYPE_CHECKING:
    from grpc_health.v1 import health_pb2

    from plait.client import decode
    from plait.client.values import AppendedEpisode, GraphAnswer, SearchResult
    from plait.domain.values import Episode, Filter
    from plait.v1 import knowledge_service_pb2, types_pb2
    from plait.wire import memory_messages as memory_wire
    from plait.wire import messages as wire
    from plait.wire.memory_messages import When
else:
    health_pb2 = lazy_module("grpc_health.v1.health_pb2")
    decode = lazy_module("plait.client.decode")
    memory_wire = lazy_module("plait.wire.memory_messages")
    wire = lazy_module("plait.wire.messages")
    knowledge_service_pb2 = lazy_module("plait.v1.knowledge_service_pb2")

INGEST_PATH = "/plait.v1.KnowledgeService/IngestEpisodes"


@dataclass(frozen=True, slots=True)
class GraphScope:
    """What a graph query reads: repositories, and as of when."""

    repositories: Sequence[str]
    all_repositories: bool
    valid_as_of: When
    recorded_as_of: When


def healthy(timeout_s: float) -> Call[bool]:
    """Not retried: the caller wants to know how it is now."""
    pb = health_pb2
    request, response = pb.HealthCheckRequest(), pb.HealthCheckResponse
    return Call(
        "grpc.health.v1.Health", "Check", request, response, _serving, timeout_s, retry=False
    )


def _serving(message: Any) -> bool:
    return bool(message.status == health_pb2.HealthCheckResponse.SERVING)


@sendable
def search(
    query: str,
    *,
    where: Filter | None,
    k: int,
    min_score: float,
    mode: Literal["fast", "full"],
    fusion: Literal["minmax", "rrf"] | None,
    explain: bool,
    timeout_s: float | None,
    valid_as_of: When,
    recorded_as_of: When,
    stages_off: Sequence[str],
    why_not: Iterable[UUID | str],
) -> Call[SearchResult]:
    pb = knowledge_service_pb2
    request = pb.SearchRequest(
        query=query,
        filter=wire.filter_(where) if where else None,
        k=k,
        min_score=min_score,
        mode=mode_of(mode),
        fusion=fusion_of(fusion),
        explain=explain,
        as_of=as_of_of(where, valid_as_of, recorded_as_of),
        stages_off=stages_off,
        why_not=[str(id_) for id_ in why_not],
    )
    timeout = timeout_s or timeouts.SEARCH_S
    return Call("KnowledgeService", "Search", request, pb.SearchResponse, decode.search, timeout)


def mode_of(mode: Literal["fast", "full"]) -> knowledge_service_pb2.SearchMode.ValueType:
    pb = knowledge_service_pb2
    modes = {"fast": pb.SEARCH_MODE_FAST, "full": pb.SEARCH_MODE_FULL}
    if mode not in modes:
        raise InvalidInput(f"mode is {mode!r}; give 'fast' or 'full'", field="mode")
    return modes[mode]


def fusion_of(
    fusion: Literal["minmax", "rrf"] | None,
) -> knowledge_service_pb2.Fusion.ValueType:
    pb = knowledge_service_pb2
    if fusion is None:
        return pb.FUSION_UNSPECIFIED
    fusions = {"minmax": pb.FUSION_MIN_MAX, "rrf": pb.FUSION_RRF}
    if fusion not in fusions:
        raise InvalidInput(
            f"fusion is {fusion!r}; give 'minmax', 'rrf' or None for the server's", field="fusion"
        )
    return fusions[fusion]


def as_of_of(where: Filter | None, valid: When, recorded: When) -> types_pb2.AsOf | None:
    """What was said by name, else what the filter says."""
    said = where.as_of if where else NOW
    return memory_wire.as_of(
        said.valid if valid is None else valid, said.recorded if recorded is None else recorded
    )


@sendable
def graph_query(
    cypher: str,
    parameters: Mapping[str, Any] | None,
    where: GraphScope,
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    pb = knowledge_service_pb2
    query = pb.CypherQuery(text=cypher, parameters=_parameters(parameters))
    return _graph(pb.GraphQueryRequest(cypher=query), where, max_rows, timeout_s)


@sendable
def template(
    name: str,
    parameters: Mapping[str, Any] | None,
    where: GraphScope,
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    pb = knowledge_service_pb2
    call = pb.TemplateCall(name=name, parameters=_parameters(parameters))
    return _graph(pb.GraphQueryRequest(template=call), where, max_rows, timeout_s)


def _parameters(values: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return wire.graph_map(values or {})
    except (TypeError, OverflowError) as exc:
        raise InvalidInput(
            f"a parameter can't be sent: {exc}; use null, bool, int, float, str, bytes, list or dict",
            field="parameters",
        ) from exc


def _graph(
    request: knowledge_service_pb2.GraphQueryRequest,
    where: GraphScope,
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    request.repositories.extend(where.repositories)
    request.all_repositories = where.all_repositories
    request.max_rows = max_rows
    if (as_of := memory_wire.as_of(where.valid_as_of, where.recorded_as_of)) is not None:
        request.as_of.CopyFrom(as_of)
    response = knowledge_service_pb2.GraphQueryResponse
    timeout = timeout_s or timeouts.GRAPH_S
    return Call("KnowledgeService", "GraphQuery", request, response, decode.graph, timeout)


def append_episode(episode: Episode, timeout_s: float | None) -> Call[AppendedEpisode]:
    """`episode.request_id` empty: the server makes one of the body, so a retry is safe either way."""
    pb = knowledge_service_pb2
    request = append_request(episode)
    timeout = timeout_s or timeouts.WRITE_S
    return Call(
        "KnowledgeService",
        "AppendEpisode",
        request,
        pb.AppendEpisodeResponse,
        decode.episode,
        timeout,
    )


@sendable
def append_request(episode: Episode) -> knowledge_service_pb2.AppendEpisodeRequest:
    return knowledge_service_pb2.AppendEpisodeRequest(
        request_id=episode.request_id, episode=wire.episode(episode)
    )


@sendable
def ingest_request(episode: Episode) -> knowledge_service_pb2.IngestEpisodesRequest:
    return knowledge_service_pb2.IngestEpisodesRequest(append=append_request(episode))


def ingest_requests(
    episodes: Iterable[Episode],
) -> Iterator[knowledge_service_pb2.IngestEpisodesRequest]:
    """The messages of a stream, each made when it is sent."""
    return map(ingest_request, episodes)


async def async_ingest_requests(
    episodes: AsyncIterable[Episode] | Iterable[Episode],
) -> AsyncIterator[knowledge_service_pb2.IngestEpisodesRequest]:
    """As `ingest_requests`, of episodes that may come asynchronously."""
    if isinstance(episodes, AsyncIterable):
        async for episode in episodes:
            yield ingest_request(episode)
        return
    for episode in episodes:
        yield ingest_request(episode)
