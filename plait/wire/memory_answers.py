"""What calls about memories answer ↔ messages."""

from __future__ import annotations

from plait.domain.answers.memories import Learned, Memories, MemoryAnswer, StoredMemory, Tool
from plait.domain.memory import MemoryMatch
from plait.v1 import memory_service_pb2 as pb
from plait.wire import items, memories, read_times


def stored(value: StoredMemory) -> pb.StoreMemoryResponse:
    return pb.StoreMemoryResponse(
        memory=memories.memory(value.entry),
        repeated=value.repeated,
        duplicate=value.duplicate,
        similar_ids=[str(id_) for id_ in value.similar],
        request_id=value.request_id,
        masked=value.masked,
    )


def stored_of(message: pb.StoreMemoryResponse) -> StoredMemory:
    return StoredMemory(
        entry=memories.memory_of(message.memory),
        repeated=message.repeated,
        duplicate=message.duplicate,
        similar=tuple(memories.id_of(id_) for id_ in message.similar_ids),
        request_id=message.request_id,
        masked=message.masked,
    )


def page(value: Memories) -> pb.ListMemoriesResponse:
    return pb.ListMemoriesResponse(
        memories=[memories.memory(entry) for entry in value.entries],
        next_page_token=value.next,
        as_of=read_times.resolved(value.as_of),
    )


def page_of(message: pb.ListMemoriesResponse) -> Memories:
    return Memories(
        entries=tuple(memories.memory_of(m) for m in message.memories),
        next=message.next_page_token,
        as_of=read_times.resolved_of(message.as_of),
    )


def answer(value: MemoryAnswer) -> pb.QueryMemoriesResponse:
    return pb.QueryMemoriesResponse(
        matches=[
            pb.MemoryMatch(memory=memories.memory(m.entry), score=m.score, arms=m.arms)
            for m in value.matches
        ],
        degraded=items.degraded(value.degraded),
        as_of=read_times.resolved(value.as_of),
        took_ms=value.took_ms,
    )


def answer_of(message: pb.QueryMemoriesResponse) -> MemoryAnswer:
    return MemoryAnswer(
        matches=tuple(
            MemoryMatch(memories.memory_of(m.memory), m.score, dict(m.arms))
            for m in message.matches
        ),
        degraded=items.degraded_of(message.degraded),
        as_of=read_times.resolved_of(message.as_of),
        took_ms=message.took_ms,
    )


def tool(value: Tool) -> pb.ToolOutcome:
    return pb.ToolOutcome(
        tool=value.tool, content=value.content, failed=value.failed, command=value.command
    )


def tool_of(message: pb.ToolOutcome) -> Tool:
    return Tool(message.tool, message.content, message.failed, message.command)


def learned(value: Learned) -> pb.LearnResponse:
    return pb.LearnResponse(
        memories=[memories.memory(entry) for entry in value.entries],
        skipped_cause=value.skipped_cause,
        repeated=value.repeated,
        request_id=value.request_id,
        masked=value.masked,
    )


def learned_of(message: pb.LearnResponse) -> Learned:
    return Learned(
        entries=tuple(memories.memory_of(m) for m in message.memories),
        skipped_cause=message.skipped_cause,
        repeated=message.repeated,
        request_id=message.request_id,
        masked=message.masked,
    )
