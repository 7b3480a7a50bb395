"""Budgets of memories ↔ numbers."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.retention import Budget
from plait.v1 import admin_service_pb2 as pb

BUDGETS: Mapping[Budget, pb.MemoryBudget.ValueType] = {
    Budget.STORED: pb.MEMORY_BUDGET_STORED,
    Budget.RUNS: pb.MEMORY_BUDGET_RUNS,
}
BUDGET_OF: Mapping[int, Budget] = {number: budget for budget, number in BUDGETS.items()}
