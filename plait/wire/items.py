"""Items, filters and revisions ↔ messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from plait.domain.answers.search import Degradation, RepositoryRevision
from plait.domain.values import Collection, Filter, Item, ItemId, Timing
from plait.v1 import types_pb2
from plait.wire import scalars
from plait.wire.sendable import number

COLLECTIONS: Mapping[Collection, types_pb2.Collection.ValueType] = {
    Collection.FILES: types_pb2.COLLECTION_FILES,
    Collection.DIFFS: types_pb2.COLLECTION_DIFFS,
    Collection.PLANS: types_pb2.COLLECTION_PLANS,
    Collection.REFLECTIONS: types_pb2.COLLECTION_REFLECTIONS,
    Collection.TESTS: types_pb2.COLLECTION_TESTS,
    Collection.MEMORIES: types_pb2.COLLECTION_MEMORIES,
}
COLLECTION_OF = {number: collection for collection, number in COLLECTIONS.items()}


def item(value: Item) -> types_pb2.Item:
    return types_pb2.Item(
        id=str(value.id),
        collection=COLLECTIONS[value.collection],
        repository=value.repo,
        kind=value.kind,
        path=value.path,
        symbol=value.symbol,
        language=value.language,
        start_line=value.start_line,
        end_line=value.end_line,
        is_test=value.is_test,
        content=value.content,
        meta=scalars.struct(value.meta) if value.meta else None,
        tags=value.tags,
        time=scalars.timestamp(value.ts),
    )


def item_of(message: types_pb2.Item) -> Item:
    return Item(
        id=ItemId(UUID(message.id)),
        collection=COLLECTION_OF[message.collection],
        repo=message.repository,
        kind=message.kind,
        path=message.path,
        symbol=message.symbol,
        language=message.language,
        start_line=message.start_line,
        end_line=message.end_line,
        content=message.content,
        ts=scalars.datetime_of(message.time),
        meta=scalars.dict_of(message.meta),
        tags=tuple(message.tags),
        is_test=message.is_test,
    )


def filter_(where: Filter) -> types_pb2.Filter:
    """Without the tenant and the times, which travel beside it."""
    return types_pb2.Filter(
        repositories=where.repos,
        all_repositories=where.all_repos,
        collections=[number(COLLECTIONS, c, "collections") for c in where.collections],
        kinds=where.kinds,
        languages=where.languages,
        path_glob=where.path_glob,
        tags_any=where.tags_any,
        tags_all=where.tags_all,
        since=scalars.timestamp(where.since),
        until=scalars.timestamp(where.until),
        agent_id=where.agent_id,
        session_key=where.session_key,
    )


def filter_of(message: types_pb2.Filter) -> Filter:
    """Raises: KeyError, for a collection this version doesn't know; ValueError, for a time."""
    collections = tuple(COLLECTION_OF[c] for c in message.collections)
    return Filter(
        repos=tuple(message.repositories),
        collections=collections or (Collection.FILES,),
        kinds=tuple(message.kinds),
        languages=tuple(message.languages),
        path_glob=message.path_glob,
        tags_any=tuple(message.tags_any),
        tags_all=tuple(message.tags_all),
        since=scalars.optional_time(message, "since"),
        until=scalars.optional_time(message, "until"),
        agent_id=message.agent_id,
        session_key=message.session_key,
        all_repos=message.all_repositories,
    )


def revision(value: RepositoryRevision) -> types_pb2.RepositoryRevision:
    return types_pb2.RepositoryRevision(
        repository=value.repository,
        revision=value.revision,
        graph_revision=value.graph_revision,
        embedded=value.embedded,
        total=value.total,
    )


def revision_of(message: types_pb2.RepositoryRevision) -> RepositoryRevision:
    return RepositoryRevision(
        message.repository,
        message.revision,
        message.graph_revision,
        message.embedded,
        message.total,
    )


def revisions(values: Iterable[RepositoryRevision]) -> list[types_pb2.RepositoryRevision]:
    return [revision(value) for value in values]


def revisions_of(
    messages: Iterable[types_pb2.RepositoryRevision],
) -> tuple[RepositoryRevision, ...]:
    return tuple(revision_of(message) for message in messages)


def degraded(values: Iterable[Degradation]) -> list[types_pb2.Degradation]:
    return [types_pb2.Degradation(part=value.part, cause=value.cause) for value in values]


def degraded_of(messages: Iterable[types_pb2.Degradation]) -> tuple[Degradation, ...]:
    return tuple(Degradation(message.part, message.cause) for message in messages)


def timings(values: Iterable[Timing]) -> list[types_pb2.StageTiming]:
    return [types_pb2.StageTiming(stage=value.stage, took_ms=value.took_ms) for value in values]


def timings_of(messages: Iterable[types_pb2.StageTiming]) -> tuple[Timing, ...]:
    return tuple(Timing(message.stage, message.took_ms) for message in messages)
