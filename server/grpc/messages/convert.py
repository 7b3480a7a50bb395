"""Answers → the values that callers get, under the names that they know. `plait/wire` makes messages of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from etl.report import IndexReport
from plait.domain.answers.graph import GraphAnswer, GraphResult
from plait.domain.answers.indexing import IndexJob, Repository
from plait.domain.answers.memories import AppendedEpisode
from plait.domain.answers.search import Degradation, RepositoryRevision, SearchResult
from plait.domain.display import to_json
from plait.domain.errors import PlaitError
from plait.domain.memory import AsOf, MemoryEntry
from plait.domain.recall import StageRank
from plait.domain.values import Episode, EpisodeReceipt, Hit, ItemId, Revision
from plait.retrieval.explain import steps
from plait.retrieval.search import SearchAnswer, SearchQuery
from plait.retrieval.search_context import Degraded, Snapshot
from plait.v1 import knowledge_service_pb2, memory_service_pb2, types_pb2
from server.background_jobs.index_jobs import Job
from server.grpc.errors import field_path, status_of
from server.grpc.messages import names, scope
from server.masking import found_in

# What each phase of an index run counts.
UNITS = {"parse": "files", "vectors": "chunks", "embed": "chunks"}


def search(tenant: str, answer: SearchAnswer, query: SearchQuery) -> SearchResult:
    explain = query.explain
    return SearchResult(
        hits=tuple(_hit(tenant, hit, explain=explain) for hit in answer.hits),
        revisions=revisions(tenant, answer.view.revisions),
        degraded=degraded(answer.degraded),
        timings=answer.timings if explain else (),
        took_ms=0.0,  # set when the message is made
        as_of=query.where.as_of,
        why_not=answer.why_not or {},
        ranks={hit.item.id: ranks(answer.trail, hit.item.id) for hit in answer.hits}
        if explain
        else {},
    )


def _hit(tenant: str, hit: Hit, *, explain: bool) -> Hit:
    item = replace(hit.item, repo=scope.name_out(tenant, hit.item.repo))
    return Hit(item, hit.score, hit.arms if explain else {})


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


def ranks(trail: Sequence[Snapshot], id_: ItemId) -> tuple[StageRank, ...]:
    """Where an item stood after each stage that changed the order."""
    return tuple(
        StageRank(step.stage, step.rank, step.score) for step in steps(trail, id_) if step.rank
    )


def degraded(parts: Iterable[Degraded]) -> tuple[Degradation, ...]:
    return tuple(Degradation(part.part, part.cause) for part in parts)


def memory(tenant: str, entry: MemoryEntry, *, with_embedding: bool = False) -> MemoryEntry:
    embedding = entry.embedding if with_embedding else None
    return replace(entry, repo=scope.name_out(tenant, entry.repo), embedding=embedding)


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


def revisions(tenant: str, values: Iterable[Revision]) -> tuple[RepositoryRevision, ...]:
    return tuple(sorted((revision(tenant, value) for value in values), key=lambda r: r.repository))


def revision(tenant: str, value: Revision) -> RepositoryRevision:
    return RepositoryRevision(
        repository=scope.name_out(tenant, value.repo),
        revision=value.number,
        graph_revision=value.graph_number,
        embedded=value.embedded,
        total=value.chunks,
    )


def graph(tenant: str, result: GraphResult, shown: Iterable[Revision], as_of: AsOf) -> GraphAnswer:
    result = names.result_out(tenant, result)
    return GraphAnswer(
        columns=result.columns,
        rows=tuple(tuple(row) for row in result.rows),
        nodes=tuple(result.nodes),
        edges=tuple(result.edges),
        truncated=result.truncated,
        revisions=revisions(tenant, shown),
        degraded=_capped(result.capped_hops),
        took_ms=0.0,  # set when the message is made
        as_of=as_of,
    )


def _capped(hops: int) -> tuple[Degradation, ...]:
    return (Degradation("hops", f"capped_at_{hops}"),) if hops else ()


def receipt(value: EpisodeReceipt, episode: Episode) -> AppendedEpisode:
    return AppendedEpisode(
        episode_id=str(value.episode_id),
        item_ids=tuple(str(item) for item in value.item_ids),
        repeated=value.repeated,
        request_id=episode.request_id,
        masked=found_in(episode),
    )


def repository(tenant: str, value: Revision) -> Repository:
    return Repository(
        name=scope.name_out(tenant, value.repo),
        root=value.root,
        revision=revision(tenant, value),
        files=value.files,
        published_at=value.published_at,
    )


def job(value: Job, *, with_report: bool = False) -> IndexJob:
    progress, tenant = value.progress, value.request.tenant
    error = scope.error_out(tenant, value.error) if value.error else None
    report = value.report
    return IndexJob(
        id=value.id,
        repository=value.repo,
        path=str(value.request.root),
        state=str(value.state),
        stage=progress.stage,
        done=progress.done,
        total=progress.total,
        unit=UNITS.get(progress.stage, ""),
        elapsed_s=_elapsed_s(value),
        counts=_counts(report) if report else {},
        languages=report.languages if report else {},
        skipped=report.skipped if report else {},
        revision=revision(tenant, value.revision) if value.revision else None,
        error_reason=error.reason if error else "",
        error_message=error.message if error else "",
        error_metadata=error.metadata if error else {},
        created_at=value.created_at,
        ended_at=value.ended_at,
        report=_report(tenant, report) if report and with_report else "",
    )


def _report(tenant: str, report: IndexReport) -> str:
    return to_json(replace(report, repo=scope.name_out(tenant, report.repo)).to_json())


def _counts(report: IndexReport) -> dict[str, int]:
    return {
        "files": report.files,
        "chunks": report.chunks,
        "nodes": report.nodes,
        "edges": sum(report.edges.values()),
        "unresolved": sum(report.unresolved.values()),
        "changed_files": report.files_parsed,
        "removed_files": report.files_removed,
    }


def _elapsed_s(value: Job) -> float:
    if value.started_at is None:
        return 0.0
    return ((value.ended_at or datetime.now(UTC)) - value.started_at).total_seconds()
