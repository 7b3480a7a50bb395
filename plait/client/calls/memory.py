"""Calls of MemoryService as values."""

from __future__ import annotations

from collections.abc import Sequence

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.errors import PlaitRpcError, from_item
from plait.domain.answers.memories import Learned, Memories, MemoryAnswer, StoredMemory, Tool
from plait.domain.memory import MemoryEntry, MemoryFilter, MemoryId
from plait.domain.options import When
from plait.v1 import memory_service_pb2 as pb
from plait.wire import memories, memory_answers, read_times, scalars
from plait.wire.sendable import sendable

_SERVICE = "MemoryService"


@sendable
def store_request(
    entry: MemoryEntry, supersedes: MemoryId | None, request_id: str
) -> pb.StoreMemoryRequest:
    return pb.StoreMemoryRequest(
        request_id=request_id,
        memory=memories.memory(entry),
        supersedes=str(supersedes) if supersedes else "",
    )


def store(request: pb.StoreMemoryRequest, timeout_s: float | None) -> Call[StoredMemory]:
    """Without a request id the server makes one of the body, so a retry is safe either way."""
    timeout = timeout_s or timeouts.WRITE_S
    return Call(
        _SERVICE, "StoreMemory", request, pb.StoreMemoryResponse, memory_answers.stored_of, timeout
    )


@sendable
def batch_store(
    requests: Sequence[pb.StoreMemoryRequest], timeout_s: float | None
) -> Call[tuple[StoredMemory | PlaitRpcError, ...]]:
    request = pb.BatchStoreMemoriesRequest(requests=requests)
    response = pb.BatchStoreMemoriesResponse
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "BatchStoreMemories", request, response, _batch, timeout)


def _batch(message: pb.BatchStoreMemoriesResponse) -> tuple[StoredMemory | PlaitRpcError, ...]:
    return tuple(
        from_item(r.error)
        if r.WhichOneof("result") == "error"
        else memory_answers.stored_of(r.response)
        for r in message.results
    )


@sendable
def get(
    id_: MemoryId | str,
    repo: str,
    valid_as_of: When,
    recorded_as_of: When,
    with_embedding: bool,
    timeout_s: float | None,
) -> Call[MemoryEntry]:
    request = pb.GetMemoryRequest(
        id=str(id_),
        repository=repo,
        as_of=read_times.as_of(valid_as_of, recorded_as_of),
        include_embedding=with_embedding,
    )
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "GetMemory", request, pb.GetMemoryResponse, _got, timeout)


def _got(message: pb.GetMemoryResponse) -> MemoryEntry:
    return memories.memory_of(message.memory)


@sendable
def list_(
    where: MemoryFilter,
    *,
    limit: int,
    after: str,
    include_superseded: bool,
    valid_as_of: When,
    recorded_as_of: When,
    timeout_s: float | None,
) -> Call[Memories]:
    request = pb.ListMemoriesRequest(
        filter=memories.filter_(where),
        page_size=limit,
        page_token=after,
        include_superseded=include_superseded,
        as_of=read_times.as_of(valid_as_of, recorded_as_of),
    )
    timeout = timeout_s or timeouts.READ_S
    return Call(
        _SERVICE, "ListMemories", request, pb.ListMemoriesResponse, memory_answers.page_of, timeout
    )


@sendable
def query(
    text: str,
    where: MemoryFilter,
    *,
    embedding: Sequence[float] | None,
    top_k: int,
    min_score: float,
    valid_as_of: When,
    recorded_as_of: When,
    timeout_s: float | None,
) -> Call[MemoryAnswer]:
    request = pb.QueryMemoriesRequest(
        query=text,
        embedding=scalars.vector(embedding),
        filter=memories.filter_(where),
        top_k=top_k,
        min_score=min_score,
        as_of=read_times.as_of(valid_as_of, recorded_as_of),
    )
    timeout = timeout_s or timeouts.SEARCH_S
    return Call(
        _SERVICE,
        "QueryMemories",
        request,
        pb.QueryMemoriesResponse,
        memory_answers.answer_of,
        timeout,
    )


@sendable
def delete(id_: MemoryId | str, repo: str, timeout_s: float | None) -> Call[bool]:
    """Retried: to close twice is no error."""
    request = pb.DeleteMemoryRequest(id=str(id_), repository=repo)
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "DeleteMemory", request, pb.DeleteMemoryResponse, _closed, timeout)


def _closed(response: pb.DeleteMemoryResponse) -> bool:
    return not response.closed_before


@sendable
def learn(
    *,
    repo: str,
    agent_id: str,
    session_key: str,
    user_message: str,
    assistant_reasoning: str,
    tool_outcomes: Sequence[Tool],
    request_id: str,
    timeout_s: float | None,
) -> Call[Learned]:
    request = pb.LearnRequest(
        request_id=request_id,
        repository=repo,
        agent_id=agent_id,
        session_key=session_key,
        user_message=user_message,
        assistant_reasoning=assistant_reasoning,
        tool_outcomes=[memory_answers.tool(one) for one in tool_outcomes],
    )
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "Learn", request, pb.LearnResponse, memory_answers.learned_of, timeout)
