"""Calls of KnowledgeService but for recalls, and the health check, as values."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.domain.errors import InvalidInput
from plait.domain.options import SearchOptions
from plait.lazy import lazy_module
from plait.wire.sendable import sendable

if TYPE_CHECKING:
    from grpc_health.v1 import health_pb2

    from plait.client.errors import PlaitRpcError
    from plait.domain.answers.graph import GraphAnswer
    from plait.domain.answers.memories import AppendedEpisode
    from plait.domain.answers.search import SearchResult
    from plait.domain.options import When
    from plait.domain.values import Episode, Filter
    from plait.v1 import knowledge_service_pb2 as pb
    from plait.wire import episodes, graph, read_times
    from plait.wire import search as wire_search
else:
    health_pb2 = lazy_module("grpc_health.v1.health_pb2")
    episodes = lazy_module("plait.wire.episodes")
    graph = lazy_module("plait.wire.graph")
    read_times = lazy_module("plait.wire.read_times")
    wire_search = lazy_module("plait.wire.search")
    pb = lazy_module("plait.v1.knowledge_service_pb2")

_SERVICE = "KnowledgeService"
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
    where: Filter | None,
    k: int,
    min_score: float,
    options: SearchOptions,
    timeout_s: float | None,
) -> Call[SearchResult]:
    if type(options) is not SearchOptions:
        raise InvalidInput(
            f"options are {type(options).__name__}; give SearchOptions(…)", field="options"
        )
    check(options)
    request = wire_search.request(query, where, k, min_score, options)
    timeout = timeout_s or timeouts.SEARCH_S
    decode = wire_search.response_of
    return Call(_SERVICE, "Search", request, pb.SearchResponse, decode, timeout)


def check(options: SearchOptions) -> None:
    """Raises: InvalidInput, for a mode or a fusion that is none, or a value of another type."""
    if isinstance(options.stages_off, str):
        raise InvalidInput(
            f"stages_off is the text {options.stages_off!r}; give a sequence of names",
            field="stages_off",
        )
    if options.mode not in wire_search.MODES:
        raise InvalidInput(f"mode is {options.mode!r}; give 'fast' or 'full'", field="mode")
    if options.fusion not in wire_search.FUSIONS:
        raise InvalidInput(
            f"fusion is {options.fusion!r}; give 'minmax', 'rrf' or None for the server's",
            field="fusion",
        )


@sendable
def graph_query(
    cypher: str,
    parameters: Mapping[str, Any] | None,
    where: GraphScope,
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
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
    call = pb.TemplateCall(name=name, parameters=_parameters(parameters))
    return _graph(pb.GraphQueryRequest(template=call), where, max_rows, timeout_s)


def _parameters(values: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return graph.graph_map(values or {})
    except (TypeError, OverflowError) as exc:
        raise InvalidInput(
            f"a parameter can't be sent: {exc}; use null, bool, int, float, str, bytes, list or dict",
            field="parameters",
        ) from exc


def _graph(
    request: pb.GraphQueryRequest,
    where: GraphScope,
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    request.repositories.extend(where.repositories)
    request.all_repositories = where.all_repositories
    request.max_rows = max_rows
    if (times := read_times.as_of(where.valid_as_of, where.recorded_as_of)) is not None:
        request.as_of.CopyFrom(times)
    response = pb.GraphQueryResponse
    timeout = timeout_s or timeouts.GRAPH_S
    return Call(_SERVICE, "GraphQuery", request, response, graph.answer_of, timeout)


def append_episode(episode: Episode, timeout_s: float | None) -> Call[AppendedEpisode]:
    """`episode.request_id` empty: the server makes one of the body, so a retry is safe either way."""
    request = append_request(episode)
    timeout = timeout_s or timeouts.WRITE_S
    return Call(
        _SERVICE,
        "AppendEpisode",
        request,
        pb.AppendEpisodeResponse,
        episodes.appended_of,
        timeout,
    )


@sendable
def append_request(episode: Episode) -> pb.AppendEpisodeRequest:
    return pb.AppendEpisodeRequest(request_id=episode.request_id, episode=episodes.episode(episode))


@sendable
def ingest_request(episode: Episode) -> pb.IngestEpisodesRequest:
    return pb.IngestEpisodesRequest(append=append_request(episode))


def ingested(message: pb.IngestEpisodesResponse) -> AppendedEpisode | PlaitRpcError:
    """One answer of a stream: stored, or why not."""
    if message.WhichOneof("result") == "error":
        from plait.client.errors import from_item

        return from_item(message.error)
    return episodes.appended_of(message.response)


def ingest_requests(
    of: Iterable[Episode],
) -> Iterator[pb.IngestEpisodesRequest]:
    """The messages of a stream, each made when it is sent."""
    return map(ingest_request, of)


async def async_ingest_requests(
    of: AsyncIterable[Episode] | Iterable[Episode],
) -> AsyncIterator[pb.IngestEpisodesRequest]:
    """As `ingest_requests`, of episodes that may come asynchronously."""
    if isinstance(of, AsyncIterable):
        async for episode in of:
            yield ingest_request(episode)
        return
    for episode in of:
        yield ingest_request(episode)
