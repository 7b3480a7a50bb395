"""A server's report on itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plait.domain.answers.search import Degradation, RepositoryRevision
from plait.domain.retention import Budget


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """`tokens` of living memories of `budget_tokens` (0: no limit); `closed` by compaction, and found through
    their summaries."""

    tokens: int
    budget_tokens: int
    memories: int
    closed: int


@dataclass(frozen=True, slots=True)
class Stats:
    version: str
    started_at: datetime | None
    revisions: tuple[RepositoryRevision, ...]
    waiting_projections: int
    graph_counts: Mapping[str, int]
    embedding_model: str
    embedding_dimension: int
    degraded: tuple[Degradation, ...]
    dead_letters: int = 0
    # By repository, agent and budget; the largest 1,000.
    memory_usage: Mapping[tuple[str, str, Budget], MemoryUsage] = field(default_factory=dict)
