"""Indexed repositories and index runs ↔ messages."""

from __future__ import annotations

from plait.domain.answers.indexing import IndexJob, Repository
from plait.v1 import index_service_pb2 as pb
from plait.wire import items, scalars

_STATE_PREFIX = "INDEX_JOB_STATE_"
# INDEX_JOB_STATE_RUNNING ↔ running, as people and JSON write it.
STATES = {
    name.removeprefix(_STATE_PREFIX).lower(): number for name, number in pb.IndexJobState.items()
}
STATE_OF = {number: state for state, number in STATES.items()}
# Counts of a run that has ended, by their fields.
COUNTS = ("files", "chunks", "nodes", "edges", "unresolved", "changed_files", "removed_files")


def repository(value: Repository) -> pb.Repository:
    return pb.Repository(
        name=value.name,
        root=value.root,
        revision=items.revision(value.revision),
        files=value.files,
        publish_time=scalars.timestamp(value.published_at),
    )


def repository_of(message: pb.Repository) -> Repository:
    return Repository(
        name=message.name,
        root=message.root,
        revision=items.revision_of(message.revision),
        files=message.files,
        published_at=scalars.optional_time(message, "publish_time"),
    )


def job(value: IndexJob) -> pb.IndexJob:
    out = pb.IndexJob(
        id=value.id,
        repository=value.repository,
        path=value.path,
        state=STATES[value.state],
        progress=pb.StageProgress(
            stage=value.stage, done=value.done, total=value.total, unit=value.unit
        ),
        revision=items.revision(value.revision) if value.revision else None,
        create_time=scalars.timestamp(value.created_at),
        end_time=scalars.timestamp(value.ended_at),
        elapsed=scalars.duration(value.elapsed_s) if value.elapsed_s else None,
        report=value.report,
    )
    if value.counts:
        out.summary.MergeFrom(
            pb.IndexSummary(**value.counts, languages=value.languages, skipped=value.skipped)
        )
    if value.error_reason:
        out.error.MergeFrom(
            pb.JobError(
                reason=value.error_reason,
                message=value.error_message,
                metadata=value.error_metadata,
            )
        )
    return out


def job_of(message: pb.IndexJob) -> IndexJob:
    """A state that this version doesn't know is "unspecified"."""
    summary = message.summary
    has_summary = message.HasField("summary")
    return IndexJob(
        id=message.id,
        repository=message.repository,
        path=message.path,
        state=STATE_OF.get(message.state, "unspecified"),
        stage=message.progress.stage,
        done=message.progress.done,
        total=message.progress.total,
        unit=message.progress.unit,
        elapsed_s=scalars.seconds_of(message.elapsed),
        counts={name: getattr(summary, name) for name in COUNTS} if has_summary else {},
        languages=dict(summary.languages),
        skipped=dict(summary.skipped),
        revision=items.revision_of(message.revision) if message.HasField("revision") else None,
        error_reason=message.error.reason,
        error_message=message.error.message,
        error_metadata=dict(message.error.metadata),
        created_at=scalars.optional_time(message, "create_time"),
        ended_at=scalars.optional_time(message, "end_time"),
        report=message.report,
    )
