"""Calls of IndexService as values."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.v1 import index_service_pb2 as pb
from plait.wire import indexing
from plait.wire.sendable import sendable

if TYPE_CHECKING:
    from plait.domain.answers.indexing import IndexJob, Repository

_SERVICE = "IndexService"


@sendable
def start_index(
    path: str,
    *,
    repository: str,
    embed: bool,
    move: bool,
    changed: Collection[str] | Literal["all"] | None,
    request_id: str,
    timeout_s: float | None,
) -> Call[IndexJob]:
    request = pb.StartIndexRequest(
        request_id=request_id or uuid4().hex,
        path=path,
        repository=repository,
        skip_embedding=not embed,
        move=move,
    )
    if changed == "all":
        request.changed.all = True
    elif changed is not None:
        request.changed.paths.extend(sorted(changed))
        request.changed.SetInParent()
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "StartIndex", request, pb.StartIndexResponse, _job, timeout)


@sendable
def get_index_job(job_id: str, timeout_s: float | None) -> Call[IndexJob]:
    request = pb.GetIndexJobRequest(id=job_id)
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "GetIndexJob", request, pb.GetIndexJobResponse, _job, timeout)


def watch_index_job(job_id: str) -> Call[IndexJob]:
    """A stream without a deadline: it ends with the job."""
    request = pb.WatchIndexJobRequest(id=job_id)
    return Call(_SERVICE, "WatchIndexJob", request, pb.WatchIndexJobResponse, _job, 0.0)


def _job(message: Any) -> IndexJob:
    return indexing.job_of(message.job)


@sendable
def list_repositories(
    page_token: str, timeout_s: float | None
) -> Call[tuple[tuple[Repository, ...], str]]:
    request = pb.ListRepositoriesRequest(page_size=1000, page_token=page_token)
    response = pb.ListRepositoriesResponse
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "ListRepositories", request, response, _page, timeout)


def _page(message: pb.ListRepositoriesResponse) -> tuple[tuple[Repository, ...], str]:
    """One page and the token of the next."""
    found = tuple(indexing.repository_of(one) for one in message.repositories)
    return found, message.next_page_token


@sendable
def delete_repository(name: str, timeout_s: float | None) -> Call[None]:
    """Not retried: a second try after a lost answer would say NOT_FOUND."""
    request = pb.DeleteRepositoryRequest(name=name)
    response = pb.DeleteRepositoryResponse
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "DeleteRepository", request, response, nothing, timeout, retry=False)


def nothing(_: Any) -> None:
    return None
