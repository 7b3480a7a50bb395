"""Every call as a value: method, request, how to read the response, how long, and whether to retry.

Both clients run these, so the sync one and the async one can't drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from uuid import UUID, uuid4

from plait.client.lazily import lazily
from plait.domain.errors import InvalidInput
from plait.domain.memory import NOW
from plait.wire.sendable import sendable

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from grpc_health.v1 import health_pb2

    from plait.client import decode
    from plait.client.values import (
        AppendedEpisode,
        GraphAnswer,
        IndexJob,
        Repository,
        SearchResult,
        Stats,
    )
    from plait.domain.values import Episode, Filter
    from plait.v1 import admin_service_pb2, index_service_pb2, knowledge_service_pb2, types_pb2
    from plait.wire import memory_messages as memory_wire
    from plait.wire import messages as wire
    from plait.wire.memory_messages import When
else:
    health_pb2 = lazily("grpc_health.v1.health_pb2")
    decode = lazily("plait.client.decode")
    memory_wire = lazily("plait.wire.memory_messages")
    wire = lazily("plait.wire.messages")
    admin_service_pb2 = lazily("plait.v1.admin_service_pb2")
    index_service_pb2 = lazily("plait.v1.index_service_pb2")
    knowledge_service_pb2 = lazily("plait.v1.knowledge_service_pb2")
    types_pb2 = lazily("plait.v1.types_pb2")

T = TypeVar("T")

SEARCH_TIMEOUT_S = 15.0
GRAPH_TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 30.0

INGEST_PATH = "/plait.v1.KnowledgeService/IngestEpisodes"
TENANT_KEY = "plait-tenant"  # of the metadata


def metadata(tenant: str) -> tuple[tuple[str, str], ...]:
    """What every call of a client carries beside its request."""
    return ((TENANT_KEY, tenant),) if tenant else ()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`retry`: reading, or made safe by a request id, so it may be sent again when UNAVAILABLE."""

    service: str
    method: str
    request: Message
    response: type[Message]
    decode: Callable[[Any], T]
    timeout_s: float
    retry: bool = True

    @property
    def path(self) -> str:
        package = "" if "." in self.service else "plait.v1."
        return f"/{package}{self.service}/{self.method}"


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
    timeout = timeout_s or SEARCH_TIMEOUT_S
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
    timeout = timeout_s or GRAPH_TIMEOUT_S
    return Call("KnowledgeService", "GraphQuery", request, response, decode.graph, timeout)


def append_episode(episode: Episode, timeout_s: float | None) -> Call[AppendedEpisode]:
    """`episode.request_id` empty: the server makes one of the body, so a retry is safe either way."""
    pb = knowledge_service_pb2
    request = append_request(episode)
    timeout = timeout_s or WRITE_TIMEOUT_S
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


@sendable
def start_index(
    path: str,
    *,
    repository: str,
    embed: bool,
    move: bool,
    request_id: str,
    timeout_s: float | None,
) -> Call[IndexJob]:
    pb = index_service_pb2
    request = pb.StartIndexRequest(
        request_id=request_id or uuid4().hex,
        path=path,
        repository=repository,
        skip_embedding=not embed,
        move=move,
    )
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("IndexService", "StartIndex", request, pb.StartIndexResponse, _job, timeout)


@sendable
def get_index_job(job_id: str, timeout_s: float | None) -> Call[IndexJob]:
    pb = index_service_pb2
    request = pb.GetIndexJobRequest(id=job_id)
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("IndexService", "GetIndexJob", request, pb.GetIndexJobResponse, _job, timeout)


def watch_index_job(job_id: str) -> Call[IndexJob]:
    """A stream without a deadline: it ends with the job."""
    pb = index_service_pb2
    request = pb.WatchIndexJobRequest(id=job_id)
    return Call("IndexService", "WatchIndexJob", request, pb.WatchIndexJobResponse, _job, 0.0)


def _job(message: Any) -> IndexJob:
    return decode.job(message.job)


@sendable
def list_repositories(
    page_token: str, timeout_s: float | None
) -> Call[tuple[tuple[Repository, ...], str]]:
    pb = index_service_pb2
    request = pb.ListRepositoriesRequest(page_size=1000, page_token=page_token)
    response = pb.ListRepositoriesResponse
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("IndexService", "ListRepositories", request, response, decode.repositories, timeout)


@sendable
def delete_repository(name: str, timeout_s: float | None) -> Call[None]:
    """Not retried: a second try after a lost answer would say NOT_FOUND."""
    pb = index_service_pb2
    request = pb.DeleteRepositoryRequest(name=name)
    response = pb.DeleteRepositoryResponse
    timeout = timeout_s or WRITE_TIMEOUT_S
    return Call(
        "IndexService", "DeleteRepository", request, response, nothing, timeout, retry=False
    )


def nothing(_: Any) -> None:
    return None


def stats(include_graph: bool, timeout_s: float | None) -> Call[Stats]:
    pb = admin_service_pb2
    request = pb.StatsRequest(include_graph=include_graph)
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("AdminService", "Stats", request, pb.StatsResponse, decode.stats, timeout)
