"""Answers → protobuf messages. What both ends need stands in `plait/wire/messages.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration

from plait.domain.answers import GraphResult
from plait.domain.errors import PlaitError
from plait.domain.memory import AsOf, MemoryEntry
from plait.domain.recall import Dropped
from plait.domain.values import Episode, EpisodeReceipt, Hit, ItemId, Revision
from plait.retrieval.explain import steps
from plait.retrieval.search import SearchAnswer, SearchQuery
from plait.retrieval.search_context import Snapshot
from plait.v1 import (
    graph_pb2,
    index_service_pb2,
    knowledge_service_pb2,
    memory_service_pb2,
    recall_pb2,
    types_pb2,
)
from plait.wire import memory_messages, messages, recall_messages
from server.background_jobs.index_jobs import Job, JobState
from server.grpc.errors import field_path, status_of
from server.grpc.messages import names, scope
from server.masking import found_in

JOB_STATES = {
    JobState.QUEUED: index_service_pb2.INDEX_JOB_STATE_QUEUED,
    JobState.RUNNING: index_service_pb2.INDEX_JOB_STATE_RUNNING,
    JobState.PUBLISHED: index_service_pb2.INDEX_JOB_STATE_PUBLISHED,
    JobState.SUCCEEDED: index_service_pb2.INDEX_JOB_STATE_SUCCEEDED,
    JobState.FAILED: index_service_pb2.INDEX_JOB_STATE_FAILED,
    JobState.CANCELLED: index_service_pb2.INDEX_JOB_STATE_CANCELLED,
}
# What each phase of an index run counts.
UNITS = {"parse": "files", "vectors": "chunks", "embed": "chunks"}


def search(
    tenant: str, answer: SearchAnswer, query: SearchQuery, took_ms: float
) -> knowledge_service_pb2.SearchResponse:
    explain = query.explain
    timings = [types_pb2.StageTiming(stage=t.stage, took_ms=t.took_ms) for t in answer.timings]
    return knowledge_service_pb2.SearchResponse(
        hits=[hit(tenant, h, answer.trail, explain=explain) for h in answer.hits],
        revisions=revisions(tenant, answer.view.revisions),
        degraded=[types_pb2.Degradation(part=d.part, cause=d.cause) for d in answer.degraded],
        timings=timings if explain else (),
        took_ms=took_ms,
        why_not=fates(answer.why_not),
        as_of=memory_messages.resolved(query.where.as_of),
    )


def fit(response: knowledge_service_pb2.SearchResponse, limit_bytes: int) -> None:
    """Leave out the last hits until `response` is at most `limit_bytes`, and say so: an answer over
    the message limit would reach nobody. Two hundred notes of a megabyte each are such an answer."""
    size, dropped = response.ByteSize(), 0
    while size > limit_bytes and response.hits:
        # Eight bytes are more than a hit's own tag and length take.
        size -= response.hits[-1].ByteSize() + 8
        del response.hits[-1]
        dropped += 1
    if dropped:
        response.degraded.append(types_pb2.Degradation(part="hits", cause="message_size"))


def fit_matches(response: memory_service_pb2.QueryMemoriesResponse, limit_bytes: int) -> None:
    """As `fit`, of memories."""
    size, dropped = response.ByteSize(), 0
    while size > limit_bytes and response.matches:
        size -= response.matches[-1].ByteSize() + 8
        del response.matches[-1]
        dropped += 1
    if dropped:
        response.degraded.append(types_pb2.Degradation(part="hits", cause="message_size"))


def hit(
    tenant: str, value: Hit, trail: Sequence[Snapshot], *, explain: bool
) -> knowledge_service_pb2.Hit:
    item = messages.item(value.item)
    item.repository = scope.name_out(tenant, item.repository)
    if not explain:
        return knowledge_service_pb2.Hit(item=item, score=value.score)
    stages = ranks(trail, value.item.id)
    return knowledge_service_pb2.Hit(item=item, score=value.score, arms=value.arms, stages=stages)


def ranks(trail: Sequence[Snapshot], id_: ItemId) -> list[recall_pb2.StageRank]:
    """Where an item stood after each stage that changed the order."""
    return [
        recall_pb2.StageRank(stage=step.stage, rank=step.rank, score=step.score)
        for step in steps(trail, id_)
        if step.rank
    ]


def fates(told: Mapping[ItemId, Dropped] | None) -> list[recall_pb2.WhyNot]:
    """Of the items that a request asked about."""
    return [
        recall_pb2.WhyNot(item_id=str(id_), why=recall_messages.dropped(why))
        for id_, why in (told or {}).items()
    ]


def memory(
    tenant: str, entry: MemoryEntry, *, with_embedding: bool = False
) -> memory_service_pb2.Memory:
    out = memory_messages.memory(entry, with_embedding=with_embedding)
    out.repository = scope.name_out(tenant, out.repository)
    return out


def item_error(tenant: str, error: PlaitError) -> types_pb2.ItemError:
    """An error as the answer to one item of a batch or a stream."""
    status = status_of(scope.error_out(tenant, error))
    return types_pb2.ItemError(
        code=status.code,
        reason=error.reason,
        message=status.message,
        metadata=error.metadata,
        field=field_path(getattr(error, "field", "")),
    )


def revisions(tenant: str, values: Iterable[Revision]) -> list[types_pb2.RepositoryRevision]:
    named = scope.revisions_out(tenant, values)
    return [messages.revision(value) for value in sorted(named, key=lambda r: r.repo)]


def graph(
    tenant: str, result: GraphResult, shown: Iterable[Revision], as_of: AsOf, took_ms: float
) -> knowledge_service_pb2.GraphQueryResponse:
    """Raises: TypeError, OverflowError, for a cell outside the contract."""
    result = names.result_out(tenant, result)
    return knowledge_service_pb2.GraphQueryResponse(
        columns=result.columns,
        rows=[
            graph_pb2.GraphRow(cells=[messages.graph_value(c) for c in row]) for row in result.rows
        ],
        nodes=[messages.graph_node(node) for node in result.nodes],
        edges=[messages.graph_edge(edge) for edge in result.edges],
        truncated=result.truncated,
        revisions=revisions(tenant, shown),
        degraded=_capped(result.capped_hops),
        took_ms=took_ms,
        as_of=memory_messages.resolved(as_of),
    )


def _capped(hops: int) -> list[types_pb2.Degradation]:
    return [types_pb2.Degradation(part="hops", cause=f"capped_at_{hops}")] if hops else []


def receipt(value: EpisodeReceipt, episode: Episode) -> knowledge_service_pb2.AppendEpisodeResponse:
    return knowledge_service_pb2.AppendEpisodeResponse(
        episode_id=str(value.episode_id),
        item_ids=[str(item) for item in value.item_ids],
        repeated=value.repeated,
        request_id=episode.request_id,
        masked=found_in(episode),
    )


def repository(tenant: str, value: Revision) -> index_service_pb2.Repository:
    value = replace(value, repo=scope.name_out(tenant, value.repo))
    return index_service_pb2.Repository(
        name=value.repo,
        root=value.root,
        revision=messages.revision(value),
        files=value.files,
        publish_time=messages.timestamp(value.published_at),
    )


def job(value: Job) -> index_service_pb2.IndexJob:
    progress, tenant = value.progress, value.request.tenant
    return index_service_pb2.IndexJob(
        id=value.id,
        repository=value.repo,
        path=str(value.request.root),
        state=JOB_STATES[value.state],
        progress=index_service_pb2.StageProgress(
            stage=progress.stage,
            done=progress.done,
            total=progress.total,
            unit=UNITS.get(progress.stage, ""),
        ),
        summary=_summary(value),
        revision=revisions(tenant, [value.revision])[0] if value.revision else None,
        error=_error(scope.error_out(tenant, value.error)) if value.error else None,
        create_time=messages.timestamp(value.created_at),
        end_time=messages.timestamp(value.ended_at),
        elapsed=_elapsed(value),
    )


def _summary(value: Job) -> index_service_pb2.IndexSummary | None:
    report = value.report
    if report is None:
        return None
    return index_service_pb2.IndexSummary(
        files=report.files,
        chunks=report.chunks,
        nodes=report.nodes,
        edges=sum(report.edges.values()),
        unresolved=sum(report.unresolved.values()),
        languages=report.languages,
        skipped=report.skipped,
        changed_files=report.files_parsed,
        removed_files=report.files_removed,
    )


def _error(error: PlaitError) -> index_service_pb2.JobError:
    return index_service_pb2.JobError(
        reason=error.reason, message=error.message, metadata=error.metadata
    )


def _elapsed(value: Job) -> Duration | None:
    if value.started_at is None:
        return None
    out = Duration()
    out.FromTimedelta((value.ended_at or datetime.now(UTC)) - value.started_at)
    return out
