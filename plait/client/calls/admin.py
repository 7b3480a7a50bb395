"""Calls of AdminService as values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.domain.answers.status import Stats
from plait.domain.answers.upkeep import Compacted, Comparison, DeadLetters, Forgotten
from plait.domain.retention import Budget, Selector
from plait.v1 import admin_service_pb2 as pb
from plait.wire import status, upkeep
from plait.wire.sendable import sendable
from plait.wire.status import BUDGETS

_SERVICE = "AdminService"


@sendable
def verify(
    repositories: Sequence[str], everywhere: bool, timeout_s: float | None
) -> Call[tuple[Comparison, ...]]:
    request = pb.VerifyRequest(repositories=repositories, all_repositories=everywhere)
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(_SERVICE, "Verify", request, pb.VerifyResponse, _verified, timeout)


def _verified(message: pb.VerifyResponse) -> tuple[Comparison, ...]:
    return tuple(upkeep.comparison_of(one) for one in message.repositories)


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
    return Call(
        _SERVICE, "Compact", request, pb.CompactResponse, upkeep.compacted_of, timeout, retry
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
        repository=repo, selector=upkeep.selector(selector), dry_run=dry_run, reclaim=reclaim
    )
    timeout = timeout_s or timeouts.UPKEEP_S
    return Call(_SERVICE, "Forget", request, pb.ForgetResponse, upkeep.forgotten_of, timeout)


@sendable
def dead_letters(
    repositories: Sequence[str], everywhere: bool, timeout_s: float | None
) -> Call[DeadLetters]:
    request = pb.ListDeadLettersRequest(repositories=repositories, all_repositories=everywhere)
    timeout = timeout_s or timeouts.READ_S
    return Call(
        _SERVICE, "ListDeadLetters", request, pb.ListDeadLettersResponse, upkeep.letters_of, timeout
    )


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
    return Call(_SERVICE, "Stats", request, pb.StatsResponse, status.stats_of, timeout)
