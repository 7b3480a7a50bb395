"""Calls of MemoryService as values."""

from __future__ import annotations

from collections.abc import Sequence

from plait.client import decode
from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.errors import PlaitRpcError, from_item
from plait.client.memory_values import Learned, Memories, MemoryAnswer, StoredMemory, Tool
from plait.domain.memory import MemoryEntry, MemoryFilter, MemoryId, MemoryMatch
from plait.v1 import memory_service_pb2 as pb
from plait.wire import memory_messages
from plait.wire.memory_messages import When
from plait.wire.sendable import sendable

_SERVICE = "MemoryService"


@sendable
def store_request(
    entry: MemoryEntry, supersedes: MemoryId | None, request_id: str
) -> pb.StoreMemoryRequest:
    return pb.StoreMemoryRequest(
        request_id=request_id,
        memory=memory_messages.memory(entry),
        supersedes=str(supersedes) if supersedes else "",
    )


def store(request: pb.StoreMemoryRequest, timeout_s: float | None) -> Call[StoredMemory]:
    """Without a request id the server makes one of the body, so a retry is safe either way."""
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "StoreMemory", request, pb.StoreMemoryResponse, _stored, timeout)


def _stored(message: pb.StoreMemoryResponse) -> StoredMemory:
    return StoredMemory(
        entry=memory_messages.memory_of(message.memory),
        repeated=message.repeated,
        duplicate=message.duplicate,
        similar=tuple(memory_messages.id_of(id_) for id_ in message.similar_ids),
        request_id=message.request_id,
        masked=message.masked,
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
        from_item(r.error) if r.WhichOneof("result") == "error" else _stored(r.response)
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
        as_of=memory_messages.as_of(valid_as_of, recorded_as_of),
        include_embedding=with_embedding,
    )
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "GetMemory", request, pb.GetMemoryResponse, _got, timeout)


def _got(message: pb.GetMemoryResponse) -> MemoryEntry:
    return memory_messages.memory_of(message.memory)


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
        filter=memory_messages.filter_(where),
        page_size=limit,
        page_token=after,
        include_superseded=include_superseded,
        as_of=memory_messages.as_of(valid_as_of, recorded_as_of),
    )
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "ListMemories", request, pb.ListMemoriesResponse, _page, timeout)


def _page(message: pb.ListMemoriesResponse) -> Memories:
    return Memories(
        entries=tuple(memory_messages.memory_of(m) for m in message.memories),
        next=message.next_page_token,
        as_of=memory_messages.resolved_of(message.as_of),
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
        embedding=memory_messages.vector(embedding),
        filter=memory_messages.filter_(where),
        top_k=top_k,
        min_score=min_score,
        as_of=memory_messages.as_of(valid_as_of, recorded_as_of),
    )
    timeout = timeout_s or timeouts.SEARCH_S
    return Call(_SERVICE, "QueryMemories", request, pb.QueryMemoriesResponse, _answer, timeout)


def _answer(message: pb.QueryMemoriesResponse) -> MemoryAnswer:
    return MemoryAnswer(
        matches=tuple(
            MemoryMatch(memory_messages.memory_of(m.memory), m.score, dict(m.arms))
            for m in message.matches
        ),
        degraded=decode.degraded(message.degraded),
        as_of=memory_messages.resolved_of(message.as_of),
        took_ms=message.took_ms,
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
        tool_outcomes=[
            pb.ToolOutcome(tool=t.tool, content=t.content, failed=t.failed, command=t.command)
            for t in tool_outcomes
        ],
    )
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "Learn", request, pb.LearnResponse, _learned, timeout)


def _learned(message: pb.LearnResponse) -> Learned:
    return Learned(
        entries=tuple(memory_messages.memory_of(m) for m in message.memories),
        skipped_cause=message.skipped_cause,
        repeated=message.repeated,
        request_id=message.request_id,
        masked=message.masked,
    )
