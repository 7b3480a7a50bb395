"""What a server says of itself ↔ messages."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.answers.status import MemoryUsage, Stats
from plait.domain.retention import Budget
from plait.v1 import admin_service_pb2 as pb
from plait.wire import items, scalars

BUDGETS: Mapping[Budget, pb.MemoryBudget.ValueType] = {
    Budget.STORED: pb.MEMORY_BUDGET_STORED,
    Budget.RUNS: pb.MEMORY_BUDGET_RUNS,
}
BUDGET_OF: Mapping[int, Budget] = {number: budget for budget, number in BUDGETS.items()}


def stats(value: Stats) -> pb.StatsResponse:
    return pb.StatsResponse(
        version=value.version,
        start_time=scalars.timestamp(value.started_at),
        revisions=items.revisions(value.revisions),
        waiting_projections=value.waiting_projections,
        graph_counts=value.graph_counts,
        embedding_model=value.embedding_model,
        embedding_dimension=value.embedding_dimension,
        degraded=items.degraded(value.degraded),
        dead_letters=value.dead_letters,
        memory_usage=[_usage(key, one) for key, one in value.memory_usage.items()],
    )


def stats_of(message: pb.StatsResponse) -> Stats:
    """Raises: KeyError, for a budget that this version doesn't know."""
    return Stats(
        version=message.version,
        started_at=scalars.optional_time(message, "start_time"),
        revisions=items.revisions_of(message.revisions),
        waiting_projections=message.waiting_projections,
        graph_counts=dict(message.graph_counts),
        embedding_model=message.embedding_model,
        embedding_dimension=message.embedding_dimension,
        degraded=items.degraded_of(message.degraded),
        dead_letters=message.dead_letters,
        memory_usage={
            (u.repository, u.agent_id, BUDGET_OF[u.budget]): MemoryUsage(
                u.tokens, u.budget_tokens, u.memories, u.closed
            )
            for u in message.memory_usage
        },
    )


def _usage(key: tuple[str, str, Budget], value: MemoryUsage) -> pb.MemoryUsage:
    repository, agent, budget = key
    return pb.MemoryUsage(
        repository=repository,
        agent_id=agent,
        tokens=value.tokens,
        budget_tokens=value.budget_tokens,
        budget=BUDGETS[budget],
        memories=value.memories,
        closed=value.closed,
    )
