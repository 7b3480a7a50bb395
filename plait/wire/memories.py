"""Memories ↔ messages."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from plait.domain.memory import (
    NO_ID,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemorySource,
    MemoryType,
)
from plait.v1 import memory_service_pb2 as pb
from plait.wire import scalars
from plait.wire.sendable import number

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


def id_of(text: str) -> MemoryId:
    """Raises: ValueError."""
    return MemoryId(UUID(text))


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
        meta=scalars.struct(meta.custom) if meta.custom else None,
        embedding=scalars.vector(entry.embedding) if with_embedding else b"",
        tokens=entry.tokens,
        valid_from=scalars.timestamp(entry.valid_from),
        valid_to=scalars.timestamp(entry.valid_to),
        supersede_time=scalars.timestamp(entry.superseded_at),
        create_time=scalars.timestamp(entry.created_at),
        update_time=scalars.timestamp(entry.updated_at),
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
            custom=scalars.dict_of(message.meta),
        ),
        type=TYPE_OF[message.type],
        kind=message.kind or "memory",
        path=message.path,
        symbol=message.symbol,
        pinned=message.pinned,
        embedding=scalars.vector_of(message.embedding),
        valid_from=scalars.optional_time(message, "valid_from"),
        valid_to=scalars.optional_time(message, "valid_to"),
        created_at=scalars.optional_time(message, "create_time"),
        updated_at=scalars.optional_time(message, "update_time"),
        superseded_at=scalars.optional_time(message, "supersede_time"),
        superseded_by=id_of(message.superseded_by) if message.superseded_by else None,
        version=message.version or 1,
        tokens=message.tokens,
    )


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
        created_after=scalars.timestamp(where.created_after),
        created_before=scalars.timestamp(where.created_before),
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
        created_after=scalars.optional_time(message, "created_after"),
        created_before=scalars.optional_time(message, "created_before"),
    )
