"""Responses → the client's values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from plait.client.errors import PlaitRpcError, from_item
from plait.client.lazy import lazy_module
from plait.client.values import (
    AppendedEpisode,
    Degradation,
    GraphAnswer,
    Hit,
    IndexJob,
    MemoryUsage,
    Repository,
    RepositoryRevision,
    SearchResult,
    Stats,
    Timing,
)
from plait.wire import memory_messages
from plait.wire import messages as wire

if TYPE_CHECKING:
    from plait.domain.retention import Budget
    from plait.v1 import admin_service_pb2, index_service_pb2, knowledge_service_pb2, types_pb2
    from plait.wire import recall_messages as recall_wire
else:
    recall_wire = lazy_module("plait.wire.recall_messages")
    index_service_pb2 = lazy_module("plait.v1.index_service_pb2")


# Lower-case names, as people and JSON write them: INDEX_JOB_STATE_RUNNING → running.
@cache
def _states() -> dict[int, str]:
    return {
        number: name.removeprefix("INDEX_JOB_STATE_").lower()
        for name, number in index_service_pb2.IndexJobState.items()
    }


def search(message: knowledge_service_pb2.SearchResponse) -> SearchResult:
    hits = tuple(Hit(wire.item_of(h.item), h.score, dict(h.arms)) for h in message.hits)
    return SearchResult(
        hits=hits,
        revisions=revisions(message.revisions),
        degraded=degraded(message.degraded),
        timings=tuple(Timing(t.stage, t.took_ms) for t in message.timings),
        took_ms=message.took_ms,
        as_of=memory_messages.resolved_of(message.as_of),
        why_not=recall_wire.fates_of(message.why_not) if message.why_not else {},
        ranks={
            hit.item.id: recall_wire.ranks_of(said.stages)
            for hit, said in zip(hits, message.hits, strict=True)
            if said.stages
        },
    )


def graph(message: knowledge_service_pb2.GraphQueryResponse) -> GraphAnswer:
    return GraphAnswer(
        columns=tuple(message.columns),
        rows=tuple(tuple(wire.value_of(cell) for cell in row.cells) for row in message.rows),
        nodes=tuple(wire.node_of(node) for node in message.nodes),
        edges=tuple(wire.edge_of(edge) for edge in message.edges),
        truncated=message.truncated,
        revisions=revisions(message.revisions),
        degraded=degraded(message.degraded),
        took_ms=message.took_ms,
        as_of=memory_messages.resolved_of(message.as_of),
    )


def ingested(
    message: knowledge_service_pb2.IngestEpisodesResponse,
) -> AppendedEpisode | PlaitRpcError:
    """One answer of a stream: stored, or why not."""
    if message.WhichOneof("result") == "error":
        return from_item(message.error)
    return episode(message.response)


def episode(message: knowledge_service_pb2.AppendEpisodeResponse) -> AppendedEpisode:
    return AppendedEpisode(
        message.episode_id,
        tuple(message.item_ids),
        message.repeated,
        message.request_id,
        message.masked,
    )


def repositories(
    message: index_service_pb2.ListRepositoriesResponse,
) -> tuple[tuple[Repository, ...], str]:
    """One page and the token of the next."""
    found = tuple(
        Repository(
            name=r.name,
            root=r.root,
            revision=revision(r.revision),
            files=r.files,
            published_at=wire.datetime_of(r.publish_time) if r.HasField("publish_time") else None,
        )
        for r in message.repositories
    )
    return found, message.next_page_token


def job(message: index_service_pb2.IndexJob) -> IndexJob:
    summary = message.summary
    names = ("files", "chunks", "nodes", "edges", "unresolved", "changed_files", "removed_files")
    known = message.HasField("summary")
    return IndexJob(
        id=message.id,
        repository=message.repository,
        path=message.path,
        state=_states().get(message.state, "unspecified"),
        stage=message.progress.stage,
        done=message.progress.done,
        total=message.progress.total,
        unit=message.progress.unit,
        elapsed_s=message.elapsed.ToTimedelta().total_seconds(),
        counts={name: getattr(summary, name) for name in names} if known else {},
        languages=dict(summary.languages),
        skipped=dict(summary.skipped),
        revision=revision(message.revision) if message.HasField("revision") else None,
        error_reason=message.error.reason,
        error_message=message.error.message,
    )


def stats(message: admin_service_pb2.StatsResponse) -> Stats:
    return Stats(
        version=message.version,
        started_at=wire.datetime_of(message.start_time) if message.HasField("start_time") else None,
        revisions=revisions(message.revisions),
        waiting_projections=message.waiting_projections,
        graph_counts=dict(message.graph_counts),
        embedding_model=message.embedding_model,
        embedding_dimension=message.embedding_dimension,
        degraded=degraded(message.degraded),
        dead_letters=message.dead_letters,
        memory_usage={
            (u.repository, u.agent_id, _budget(u.budget)): MemoryUsage(
                u.tokens, u.budget_tokens, u.memories, u.closed
            )
            for u in message.memory_usage
        },
    )


def _budget(value: int) -> Budget:
    from plait.client.calls.admin import BUDGET_OF

    return BUDGET_OF[value]


def revision(message: types_pb2.RepositoryRevision) -> RepositoryRevision:
    return RepositoryRevision(
        message.repository,
        message.revision,
        message.graph_revision,
        message.embedded,
        message.total,
    )


def revisions(messages: Iterable[types_pb2.RepositoryRevision]) -> tuple[RepositoryRevision, ...]:
    return tuple(revision(message) for message in messages)


def degraded(messages: Iterable[types_pb2.Degradation]) -> tuple[Degradation, ...]:
    return tuple(Degradation(message.part, message.cause) for message in messages)
