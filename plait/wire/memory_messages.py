"""Memories and times ↔ protobuf messages, for both ends of the wire; as `wire`, nothing is checked."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.timestamp_pb2 import Timestamp

from plait import settings
from plait.domain.memory import (
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemorySource,
    MemoryType,
)
from plait.v1 import memory_service_pb2 as pb
from plait.v1 import types_pb2
from plait.wire import messages
from plait.wire.sendable import number

When = datetime | str | None  # an instant, words for one, or now

TYPES: Mapping[MemoryType, pb.MemoryType.ValueType] = {
    MemoryType.EPISODIC: pb.MEMORY_TYPE_EPISODIC,
    MemoryType.SEMANTIC: pb.MEMORY_TYPE_SEMANTIC,
    MemoryType.PROCEDURAL: pb.MEMORY_TYPE_PROCEDURAL,
}
SOURCES: Mapping[MemorySource, pb.MemorySource.ValueType] = {
    MemorySource.AGENT: pb.MEMORY_SOURCE_AGENT,
    MemorySource.USER: pb.MEMORY_SOURCE_USER,
    MemorySource.SYSTEM: pb.MEMORY_SOURCE_SYSTEM,
}
# Of a memory; in a filter an unset number is refused, since it would not say what is meant.
TYPE_OF: Mapping[int, MemoryType] = {
    pb.MEMORY_TYPE_UNSPECIFIED: MemoryType.SEMANTIC,
    **{number: type_ for type_, number in TYPES.items()},
}
SOURCE_OF: Mapping[int, MemorySource] = {
    pb.MEMORY_SOURCE_UNSPECIFIED: MemorySource.AGENT,
    **{number: source for source, number in SOURCES.items()},
}
NO_ID = MemoryId(UUID(int=0))  # of an entry that the store has not seen


# -- times ----------------------------------------------------------------------------------------


def as_of(valid: When, recorded: When) -> types_pb2.AsOf | None:
    """What a read is asked for, with this process's clock and zone for the words in it."""
    if valid is None and recorded is None:
        return None
    return types_pb2.AsOf(
        valid=point(valid),
        recorded=point(recorded),
        caller_time=messages.timestamp(datetime.now(UTC)),
        time_zone=settings.time_zone(),
    )


def point(when: When) -> types_pb2.TimePoint | None:
    if when is None:
        return None
    if isinstance(when, str):
        return types_pb2.TimePoint(words=when)
    return types_pb2.TimePoint(time=messages.timestamp(when))


def resolved(value: AsOf) -> types_pb2.ResolvedAsOf | None:
    if not value:
        return None
    return types_pb2.ResolvedAsOf(
        valid=messages.timestamp(value.valid), recorded=messages.timestamp(value.recorded)
    )


def resolved_of(message: types_pb2.ResolvedAsOf) -> AsOf:
    return AsOf(
        valid=messages.datetime_of(message.valid) if message.HasField("valid") else None,
        recorded=messages.datetime_of(message.recorded) if message.HasField("recorded") else None,
    )


# -- vectors ----------------------------------------------------------------------------------------


def vector(values: Sequence[float] | None) -> bytes:
    """float32, little endian; empty for none."""
    if values is None:
        return b""
    out = array("f", values)
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def vector_of(data: bytes) -> tuple[float, ...] | None:
    """Raises: ValueError, for a number of bytes that is no multiple of 4."""
    if not data:
        return None
    out = array("f")
    out.frombytes(data)
    if sys.byteorder == "big":
        out.byteswap()
    return tuple(out)


def id_of(text: str) -> MemoryId:
    """Raises: ValueError."""
    return MemoryId(UUID(text))


# -- entries ------------------------------------------------------------------------------------------


def memory(entry: MemoryEntry, *, with_embedding: bool = True) -> pb.Memory:
    meta = entry.metadata
    return pb.Memory(
        id="" if entry.id == NO_ID else str(entry.id),
        content=entry.content,
        type=number(TYPES, entry.type, "type"),
        source=number(SOURCES, meta.source, "source"),
        kind=entry.kind,
        repository=entry.repo,
        agent_id=entry.agent_id,
        session_key=meta.session_key,
        tags=meta.tags,
        path=entry.path,
        symbol=entry.symbol,
        importance=meta.importance,
        pinned=entry.pinned,
        meta=messages.struct(meta.custom) if meta.custom else None,
        embedding=vector(entry.embedding) if with_embedding else b"",
        tokens=entry.tokens,
        valid_from=messages.timestamp(entry.valid_from),
        valid_to=messages.timestamp(entry.valid_to),
        supersede_time=messages.timestamp(entry.superseded_at),
        create_time=messages.timestamp(entry.created_at),
        update_time=messages.timestamp(entry.updated_at),
        version=entry.version,
        superseded_by=str(entry.superseded_by) if entry.superseded_by else "",
    )


def memory_of(message: pb.Memory) -> MemoryEntry:
    """Raises: KeyError, for an enum value unknown; ValueError, for an id, a time or a vector."""
    return MemoryEntry(
        id=id_of(message.id) if message.id else NO_ID,
        repo=message.repository,
        agent_id=message.agent_id,
        content=message.content,
        metadata=MemoryMetadata(
            source=SOURCE_OF[message.source],
            session_key=message.session_key,
            tags=tuple(sorted(set(message.tags))),
            importance=message.importance if message.HasField("importance") else 0.5,
            custom=messages.dict_of(message.meta),
        ),
        type=TYPE_OF[message.type],
        kind=message.kind or "memory",
        path=message.path,
        symbol=message.symbol,
        pinned=message.pinned,
        embedding=vector_of(message.embedding),
        valid_from=_time(message.valid_from, message.HasField("valid_from")),
        valid_to=_time(message.valid_to, message.HasField("valid_to")),
        created_at=_time(message.create_time, message.HasField("create_time")),
        updated_at=_time(message.update_time, message.HasField("update_time")),
        superseded_at=_time(message.supersede_time, message.HasField("supersede_time")),
        superseded_by=id_of(message.superseded_by) if message.superseded_by else None,
        version=message.version or 1,
        tokens=message.tokens,
    )


def _time(message: Timestamp, is_set: bool) -> datetime | None:
    return messages.datetime_of(message) if is_set else None


def filter_(where: MemoryFilter) -> pb.MemoryFilter:
    """Without the tenant, which travels beside it."""
    return pb.MemoryFilter(
        repositories=where.repos,
        all_repositories=where.all_repos,
        agent_id=where.agent_id,
        session_key=where.session_key,
        tags_any=where.tags_any,
        tags_all=where.tags_all,
        sources=[number(SOURCES, source, "sources") for source in where.sources],
        types=[number(TYPES, type_, "types") for type_ in where.types],
        kinds=where.kinds,
        importance_min=where.importance_min,
        created_after=messages.timestamp(where.created_after),
        created_before=messages.timestamp(where.created_before),
    )


def filter_of(message: pb.MemoryFilter) -> MemoryFilter:
    """Raises: KeyError, for an enum value unknown; ValueError, for a time."""
    return MemoryFilter(
        repos=tuple(message.repositories),
        all_repos=message.all_repositories,
        agent_id=message.agent_id,
        session_key=message.session_key,
        tags_any=tuple(message.tags_any),
        tags_all=tuple(message.tags_all),
        sources=tuple(SOURCE_OF[number] for number in message.sources),
        types=tuple(TYPE_OF[number] for number in message.types),
        kinds=tuple(message.kinds),
        importance_min=message.importance_min,
        created_after=_time(message.created_after, message.HasField("created_after")),
        created_before=_time(message.created_before, message.HasField("created_before")),
    )
