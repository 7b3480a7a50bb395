"""Every call as a value: method, request, how to read the response, how long, and whether to retry.

Both clients run these, so the sync one and the async one can't drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar
from uuid import uuid4

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from plait.client import decode, wire
from plait.client.values import (
    AppendedEpisode,
    GraphAnswer,
    IndexJob,
    Repository,
    SearchResult,
    Stats,
)
from plait.domain.errors import InvalidInput
from plait.domain.values import Episode, Filter
from plait.v1 import admin_service_pb2, index_service_pb2, knowledge_service_pb2

T = TypeVar("T")

SEARCH_TIMEOUT_S = 15.0
GRAPH_TIMEOUT_S = 30.0
WRITE_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 30.0


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


def healthy(timeout_s: float) -> Call[bool]:
    """Not retried: the caller wants to know how it is now."""
    pb = health_pb2
    request, response = pb.HealthCheckRequest(), pb.HealthCheckResponse
    return Call(
        "grpc.health.v1.Health", "Check", request, response, _serving, timeout_s, retry=False
    )


def _serving(message: Any) -> bool:
    return bool(message.status == health_pb2.HealthCheckResponse.SERVING)


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
) -> Call[SearchResult]:
    pb = knowledge_service_pb2
    modes = {"fast": pb.SEARCH_MODE_FAST, "full": pb.SEARCH_MODE_FULL}
    fusions = {None: pb.FUSION_UNSPECIFIED, "minmax": pb.FUSION_MIN_MAX, "rrf": pb.FUSION_RRF}
    request = pb.SearchRequest(
        query=query,
        filter=wire.filter_(where) if where else None,
        k=k,
        min_score=min_score,
        mode=modes[mode],
        fusion=fusions[fusion],
        explain=explain,
    )
    timeout = timeout_s or SEARCH_TIMEOUT_S
    return Call("KnowledgeService", "Search", request, pb.SearchResponse, decode.search, timeout)


def graph_query(
    cypher: str,
    parameters: Mapping[str, Any] | None,
    repositories: Sequence[str],
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    pb = knowledge_service_pb2
    query = pb.CypherQuery(text=cypher, parameters=_parameters(parameters))
    return _graph(pb.GraphQueryRequest(cypher=query), repositories, max_rows, timeout_s)


def template(
    name: str,
    parameters: Mapping[str, Any] | None,
    repositories: Sequence[str],
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    pb = knowledge_service_pb2
    call = pb.TemplateCall(name=name, parameters=_parameters(parameters))
    return _graph(pb.GraphQueryRequest(template=call), repositories, max_rows, timeout_s)


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
    repositories: Sequence[str],
    max_rows: int,
    timeout_s: float | None,
) -> Call[GraphAnswer]:
    request.repositories.extend(repositories)
    request.max_rows = max_rows
    response = knowledge_service_pb2.GraphQueryResponse
    timeout = timeout_s or GRAPH_TIMEOUT_S
    return Call("KnowledgeService", "GraphQuery", request, response, decode.graph, timeout)


def append_episode(episode: Episode, timeout_s: float | None) -> Call[AppendedEpisode]:
    """`episode.request_id` empty: the server makes one of the body, so a retry is safe either way."""
    pb = knowledge_service_pb2
    request = pb.AppendEpisodeRequest(request_id=episode.request_id, episode=wire.episode(episode))
    timeout = timeout_s or WRITE_TIMEOUT_S
    return Call(
        "KnowledgeService",
        "AppendEpisode",
        request,
        pb.AppendEpisodeResponse,
        decode.episode,
        timeout,
    )


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


def list_repositories(
    page_token: str, timeout_s: float | None
) -> Call[tuple[tuple[Repository, ...], str]]:
    pb = index_service_pb2
    request = pb.ListRepositoriesRequest(page_size=1000, page_token=page_token)
    response = pb.ListRepositoriesResponse
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("IndexService", "ListRepositories", request, response, decode.repositories, timeout)


def delete_repository(name: str, timeout_s: float | None) -> Call[None]:
    """Not retried: a second try after a lost answer would say NOT_FOUND."""
    pb = index_service_pb2
    request = pb.DeleteRepositoryRequest(name=name)
    response = pb.DeleteRepositoryResponse
    timeout = timeout_s or WRITE_TIMEOUT_S
    return Call(
        "IndexService", "DeleteRepository", request, response, _nothing, timeout, retry=False
    )


def _nothing(_: Any) -> None:
    return None


def stats(include_graph: bool, timeout_s: float | None) -> Call[Stats]:
    pb = admin_service_pb2
    request = pb.StatsRequest(include_graph=include_graph)
    timeout = timeout_s or READ_TIMEOUT_S
    return Call("AdminService", "Stats", request, pb.StatsResponse, decode.stats, timeout)


def rebuild(repositories: Sequence[str], timeout_s: float | None) -> Call[int]:
    pb = admin_service_pb2
    request = pb.RebuildRequest(repositories=repositories)
    timeout = timeout_s or WRITE_TIMEOUT_S
    return Call("AdminService", "Rebuild", request, pb.RebuildResponse, _waiting, timeout)


def _waiting(message: Any) -> int:
    return int(message.waiting)
