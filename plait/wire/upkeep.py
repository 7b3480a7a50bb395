"""Upkeep ↔ messages: comparisons with the graph, compaction, forgetting, dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from plait.domain.answers.upkeep import (
    Compacted,
    Comparison,
    DeadLetters,
    Difference,
    Forgotten,
    Letter,
)
from plait.domain.memory import MemorySource
from plait.domain.retention import Action, Selector, Step
from plait.v1 import admin_service_pb2 as pb
from plait.v1 import memory_service_pb2
from plait.wire import items, memories, scalars

ACTIONS: Mapping[Action, pb.CompactionAction.ValueType] = {
    Action.SUMMARIZE: pb.COMPACTION_ACTION_SUMMARIZE,
    Action.DEDUPLICATE: pb.COMPACTION_ACTION_DEDUPLICATE,
    Action.PIN: pb.COMPACTION_ACTION_PIN,
}
ACTION_OF = {number: action for action, number in ACTIONS.items()}
# missing ↔ DIFFERENCE_KIND_MISSING
KINDS = {
    name.removeprefix("DIFFERENCE_KIND_").lower(): number
    for name, number in pb.DifferenceKind.items()
}
KIND_OF = {number: kind for kind, number in KINDS.items()}


# -- comparisons -------------------------------------------------------------------------------------


def comparison(value: Comparison) -> pb.RepositoryComparison:
    return pb.RepositoryComparison(
        revision=items.revision(value.revision),
        consistent=value.consistent,
        nodes=value.nodes,
        edges=value.edges,
        differences=[
            pb.StoreDifference(
                kind=KINDS[d.kind], total=d.total, counts=d.counts, examples=d.examples
            )
            for d in value.differences
        ],
        waiting=value.waiting,
        dead_letters=value.dead_letters,
        checked=value.checked,
        took_ms=value.took_ms,
    )


def comparison_of(message: pb.RepositoryComparison) -> Comparison:
    """A kind of difference that this version doesn't know is ""."""
    return Comparison(
        revision=items.revision_of(message.revision),
        consistent=message.consistent,
        nodes=message.nodes,
        edges=message.edges,
        differences=tuple(
            Difference(KIND_OF.get(d.kind, ""), d.total, dict(d.counts), tuple(d.examples))
            for d in message.differences
        ),
        waiting=message.waiting,
        dead_letters=message.dead_letters,
        checked=message.checked,
        took_ms=message.took_ms,
    )


# -- compaction and forgetting -----------------------------------------------------------------------


def compacted(value: Compacted) -> pb.CompactResponse:
    return pb.CompactResponse(
        compaction_id=value.id,
        dry_run=value.dry_run,
        steps=[
            pb.CompactionStep(
                action=ACTIONS[step.action],
                memory_id=str(step.entry_id),
                reason=step.reason,
                into_id=str(step.into) if step.into else "",
                tokens=step.tokens,
            )
            for step in value.steps
        ],
        steps_left_out=value.steps_left_out,
        summaries=[memories.memory(entry) for entry in value.summaries],
        written=len(value.summaries),
        examined=value.examined,
        closed=value.closed,
        tokens_before=value.tokens_before,
        tokens_after=value.tokens_after,
        budget_tokens=value.budget_tokens,
        notes=value.notes,
        undo_until=scalars.timestamp(value.undo_until),
    )


def compacted_of(message: pb.CompactResponse) -> Compacted:
    return Compacted(
        id=message.compaction_id,
        dry_run=message.dry_run,
        steps=tuple(
            Step(
                action=ACTION_OF[step.action],
                entry_id=memories.id_of(step.memory_id),
                reason=step.reason,
                into=memories.id_of(step.into_id) if step.into_id else None,
                tokens=step.tokens,
            )
            for step in message.steps
        ),
        steps_left_out=message.steps_left_out,
        summaries=tuple(memories.memory_of(m) for m in message.summaries),
        examined=message.examined,
        closed=message.closed,
        tokens_before=message.tokens_before,
        tokens_after=message.tokens_after,
        budget_tokens=message.budget_tokens,
        notes=tuple(message.notes),
        undo_until=scalars.optional_time(message, "undo_until"),
    )


def selector(value: Selector) -> pb.ForgetSelector:
    source = memory_service_pb2.MEMORY_SOURCE_UNSPECIFIED
    if value.source:
        source = memories.SOURCES[MemorySource(value.source)]
    return pb.ForgetSelector(
        ids=[str(id_) for id_ in value.ids],
        source=source,
        agent_id=value.agent_id,
        recorded_from=scalars.timestamp(value.recorded_from),
        recorded_to=scalars.timestamp(value.recorded_to),
    )


def selector_of(message: pb.ForgetSelector) -> Selector:
    """Raises: KeyError, for a source that is none; ValueError, for an id or a time."""
    return Selector(
        ids=tuple(dict.fromkeys(UUID(id_) for id_ in message.ids)),
        source=str(memories.SOURCE_OF[message.source]) if message.source else "",
        agent_id=message.agent_id,
        recorded_from=scalars.optional_time(message, "recorded_from"),
        recorded_to=scalars.optional_time(message, "recorded_to"),
    )


def forgotten(value: Forgotten) -> pb.ForgetResponse:
    return pb.ForgetResponse(
        forget_id=value.id,
        dry_run=value.dry_run,
        memory_ids=[str(id_) for id_ in value.memory_ids],
        episode_ids=[str(id_) for id_ in value.episode_ids],
        memories=value.memories,
        episodes=value.episodes,
        removed=value.removed,
        left=value.left,
        graph_done=value.graph_done,
        reclaimed=value.reclaimed,
        table_files=value.table_files,
        log_files=value.log_files,
    )


def forgotten_of(message: pb.ForgetResponse) -> Forgotten:
    return Forgotten(
        id=message.forget_id,
        dry_run=message.dry_run,
        memory_ids=tuple(UUID(id_) for id_ in message.memory_ids),
        episode_ids=tuple(UUID(id_) for id_ in message.episode_ids),
        memories=message.memories,
        episodes=message.episodes,
        removed=dict(message.removed),
        left=dict(message.left),
        graph_done=message.graph_done,
        reclaimed=tuple(message.reclaimed),
        table_files=message.table_files if message.HasField("table_files") else None,
        log_files=message.log_files if message.HasField("log_files") else None,
    )


# -- dead letters ------------------------------------------------------------------------------------


def letters(value: DeadLetters) -> pb.ListDeadLettersResponse:
    return pb.ListDeadLettersResponse(
        dead_letters=[
            pb.DeadLetter(
                event_id=one.event_id,
                repository=one.repository,
                kind=one.kind,
                attempts=one.attempts,
                cause=one.cause,
                death_time=scalars.timestamp(one.died_at),
            )
            for one in value.letters
        ],
        total=value.total,
    )


def letters_of(message: pb.ListDeadLettersResponse) -> DeadLetters:
    return DeadLetters(
        tuple(
            Letter(
                d.event_id,
                d.repository,
                d.kind,
                d.attempts,
                d.cause,
                scalars.datetime_of(d.death_time),
            )
            for d in message.dead_letters
        ),
        message.total,
    )
