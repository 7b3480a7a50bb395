"""Calls of AdminService as values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from plait.client import decode
from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.memory_values import (
    Compacted,
    Comparison,
    DeadLetters,
    Difference,
    Forgotten,
    Letter,
)
from plait.client.values import Stats
from plait.domain.memory import MemorySource
from plait.domain.retention import Action, Budget, Selector, Step
from plait.v1 import admin_service_pb2 as pb
from plait.v1 import memory_service_pb2
from plait.wire import memory_messages, messages
from plait.wire.sendable import sendable

_SERVICE = "AdminService"

ACTIONS = {
    Action.SUMMARIZE: pb.COMPACTION_ACTION_SUMMARIZE,
    Action.DEDUPLICATE: pb.COMPACTION_ACTION_DEDUPLICATE,
    Action.PIN: pb.COMPACTION_ACTION_PIN,
}
ACTION_OF = {number: action for action, number in ACTIONS.items()}
BUDGETS = {
    Budget.STORED: pb.MEMORY_BUDGET_STORED,
    Budget.RUNS: pb.MEMORY_BUDGET_RUNS,
}
BUDGET_OF: dict[int, Budget] = {number: budget for budget, number in BUDGETS.items()}
# DIFFERENCE_KIND_MISSING → missing
_KINDS = {n: name.removeprefix("DIFFERENCE_KIND_").lower() for name, n in pb.DifferenceKind.items()}


@sendable
def verify(
    repositories: Sequence[str], everywhere: bool, timeout_s: float | None
) -> Call[tuple[Comparison, ...]]:
    request = pb.VerifyRequest(repositories=repositories, all_repositories=everywhere)
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(_SERVICE, "Verify", request, pb.VerifyResponse, _verified, timeout)


def _verified(message: pb.VerifyResponse) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(
            revision=decode.revision(r.revision),
            consistent=r.consistent,
            nodes=r.nodes,
            edges=r.edges,
            differences=tuple(
                Difference(_KINDS.get(d.kind, ""), d.total, dict(d.counts), tuple(d.examples))
                for d in r.differences
            ),
            waiting=r.waiting,
            dead_letters=r.dead_letters,
            checked=r.checked,
            took_ms=r.took_ms,
        )
        for r in message.repositories
    )


@sendable
def rebuild(repositories: Sequence[str], everywhere: bool, timeout_s: float | None) -> Call[int]:
    request = pb.RebuildRequest(repositories=repositories, all_repositories=everywhere)
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(_SERVICE, "Rebuild", request, pb.RebuildResponse, lambda m: int(m.waiting), timeout)


@sendable
def compact(
    repo: str,
    agent_id: str | None,
    *,
    dry_run: bool,
    undo_s: float | None,
    request_id: str,
    budget: Budget | None,
    timeout_s: float | None,
) -> Call[Compacted]:
    """Retried only with a request id: without one a second try would be a second compaction."""
    request = pb.CompactRequest(
        request_id=request_id,
        repository=repo,
        agent_id=agent_id or "",
        without_agent=agent_id is None,
        dry_run=dry_run,
        budget=BUDGETS[budget or Budget.STORED],
    )
    if undo_s is not None:
        request.undo_window.FromTimedelta(timedelta(seconds=undo_s))
    timeout = timeout_s or timeouts.UPKEEP_S
    retry = dry_run or bool(request_id)
    return Call(_SERVICE, "Compact", request, pb.CompactResponse, _compacted, timeout, retry)


def _compacted(message: pb.CompactResponse) -> Compacted:
    until = message.undo_until
    return Compacted(
        id=message.compaction_id,
        dry_run=message.dry_run,
        steps=tuple(
            Step(
                action=ACTION_OF[step.action],
                entry_id=memory_messages.id_of(step.memory_id),
                reason=step.reason,
                into=memory_messages.id_of(step.into_id) if step.into_id else None,
                tokens=step.tokens,
            )
            for step in message.steps
        ),
        steps_left_out=message.steps_left_out,
        summaries=tuple(memory_messages.memory_of(m) for m in message.summaries),
        examined=message.examined,
        closed=message.closed,
        tokens_before=message.tokens_before,
        tokens_after=message.tokens_after,
        budget_tokens=message.budget_tokens,
        notes=tuple(message.notes),
        undo_until=messages.datetime_of(until) if message.HasField("undo_until") else None,
    )


@sendable
def undo_compaction(compaction_id: str, timeout_s: float | None) -> Call[int]:
    """Not retried: a second try after a lost answer would say UNDO_EXPIRED."""
    request = pb.UndoCompactionRequest(compaction_id=compaction_id)
    response = pb.UndoCompactionResponse
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(
        _SERVICE,
        "UndoCompaction",
        request,
        response,
        lambda m: int(m.restored),
        timeout,
        retry=False,
    )


@sendable
def forget(
    repo: str, selector: Selector, dry_run: bool, reclaim: bool, timeout_s: float | None
) -> Call[Forgotten]:
    """Retried: what is gone stays gone, though the second answer counts what the first one left."""
    request = pb.ForgetRequest(
        repository=repo, selector=selector_of(selector), dry_run=dry_run, reclaim=reclaim
    )
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(_SERVICE, "Forget", request, pb.ForgetResponse, _forgotten, timeout)


def selector_of(selector: Selector) -> pb.ForgetSelector:
    source = memory_service_pb2.MEMORY_SOURCE_UNSPECIFIED
    if selector.source:
        source = memory_messages.SOURCES[MemorySource(selector.source)]
    return pb.ForgetSelector(
        ids=[str(id_) for id_ in selector.ids],
        source=source,
        agent_id=selector.agent_id,
        recorded_from=messages.timestamp(selector.recorded_from),
        recorded_to=messages.timestamp(selector.recorded_to),
    )


def _forgotten(message: pb.ForgetResponse) -> Forgotten:
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


@sendable
def dead_letters(
    repositories: Sequence[str], everywhere: bool, timeout_s: float | None
) -> Call[DeadLetters]:
    request = pb.ListDeadLettersRequest(repositories=repositories, all_repositories=everywhere)
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "ListDeadLetters", request, pb.ListDeadLettersResponse, _letters, timeout)


def _letters(message: pb.ListDeadLettersResponse) -> DeadLetters:
    letters = tuple(
        Letter(
            d.event_id,
            d.repository,
            d.kind,
            d.attempts,
            d.cause,
            messages.datetime_of(d.death_time),
        )
        for d in message.dead_letters
    )
    return DeadLetters(letters, message.total)


@sendable
def retry_dead_letters(
    repositories: Sequence[str], everywhere: bool, timeout_s: float | None
) -> Call[int]:
    request = pb.RetryDeadLettersRequest(repositories=repositories, all_repositories=everywhere)
    response = pb.RetryDeadLettersResponse
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "RetryDeadLetters", request, response, lambda m: int(m.revived), timeout)


def stats(include_graph: bool, timeout_s: float | None) -> Call[Stats]:
    request = pb.StatsRequest(include_graph=include_graph)
    timeout = timeout_s or timeouts.READ_S
    return Call(_SERVICE, "Stats", request, pb.StatsResponse, decode.stats, timeout)
