"""Episodes ↔ messages."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.answers.memories import AppendedEpisode
from plait.domain.values import Artifact, ArtifactKind, Episode, Evidence, Outcome
from plait.v1 import episode_pb2
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import scalars
from plait.wire.sendable import number

ARTIFACT_KINDS: Mapping[ArtifactKind, episode_pb2.ArtifactKind.ValueType] = {
    ArtifactKind.PLAN: episode_pb2.ARTIFACT_KIND_PLAN,
    ArtifactKind.DIFF: episode_pb2.ARTIFACT_KIND_DIFF,
    ArtifactKind.REFLECTION: episode_pb2.ARTIFACT_KIND_REFLECTION,
    ArtifactKind.TEST_RESULT: episode_pb2.ARTIFACT_KIND_TEST_RESULT,
    ArtifactKind.NOTE: episode_pb2.ARTIFACT_KIND_NOTE,
    ArtifactKind.TURN: episode_pb2.ARTIFACT_KIND_TURN,
}
STATUSES: Mapping[str, episode_pb2.OutcomeStatus.ValueType] = {
    "success": episode_pb2.OUTCOME_STATUS_SUCCESS,
    "failure": episode_pb2.OUTCOME_STATUS_FAILURE,
    "partial": episode_pb2.OUTCOME_STATUS_PARTIAL,
    "unknown": episode_pb2.OUTCOME_STATUS_UNKNOWN,
}
ARTIFACT_KIND_OF = {number: kind for kind, number in ARTIFACT_KINDS.items()}
STATUS_OF: Mapping[episode_pb2.OutcomeStatus.ValueType, str] = {
    episode_pb2.OUTCOME_STATUS_UNSPECIFIED: "unknown",
    **{number: status for status, number in STATUSES.items()},
}


def episode(value: Episode) -> episode_pb2.Episode:
    """Without the request id, which travels beside it."""
    return episode_pb2.Episode(
        repository=value.repo,
        outcome=outcome(value.outcome),
        artifacts=[
            episode_pb2.Artifact(
                kind=number(ARTIFACT_KINDS, a.kind, "artifacts.kind"),
                content=a.content,
                path=a.path,
                meta=scalars.struct(a.meta) if a.meta else None,
            )
            for a in value.artifacts
        ],
        evidence=[
            episode_pb2.Evidence(name=e.name, media_type=e.media_type, content=e.body)
            for e in value.evidence
        ],
        agent_id=value.agent_id,
        session_key=value.session_key,
        tags=value.tags,
        start_time=scalars.timestamp(value.started_at),
    )


def episode_of(message: episode_pb2.Episode, request_id: str) -> Episode:
    """Unchecked. Raises: KeyError, for an enum value unknown or unset; ValueError, for a time."""
    return Episode(
        request_id=request_id,
        repo=message.repository,
        outcome=outcome_of(message.outcome),
        artifacts=tuple(
            Artifact(ARTIFACT_KIND_OF[a.kind], a.content, a.path, scalars.dict_of(a.meta))
            for a in message.artifacts
        ),
        agent_id=message.agent_id,
        session_key=message.session_key,
        tags=tuple(message.tags),
        started_at=scalars.optional_time(message, "start_time"),
        evidence=tuple(Evidence(e.name, e.media_type, e.content) for e in message.evidence),
    )


def outcome(value: Outcome) -> episode_pb2.Outcome:
    return episode_pb2.Outcome(
        status=number(STATUSES, value.status, "outcome.status"),
        summary=value.summary,
        metrics=value.metrics,
        commit=value.commit,
        branch=value.branch,
    )


def outcome_of(message: episode_pb2.Outcome) -> Outcome:
    """Raises: KeyError, for a status unknown."""
    return Outcome(
        status=STATUS_OF[message.status],
        summary=message.summary,
        metrics=dict(message.metrics),
        commit=message.commit,
        branch=message.branch,
    )


def appended(value: AppendedEpisode) -> pb.AppendEpisodeResponse:
    return pb.AppendEpisodeResponse(
        episode_id=value.episode_id,
        item_ids=value.item_ids,
        repeated=value.repeated,
        request_id=value.request_id,
        masked=value.masked,
    )


def appended_of(message: pb.AppendEpisodeResponse) -> AppendedEpisode:
    return AppendedEpisode(
        message.episode_id,
        tuple(message.item_ids),
        message.repeated,
        message.request_id,
        message.masked,
    )
