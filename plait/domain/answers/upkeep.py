"""What upkeep answers: comparisons with the graph, compaction, forgetting, dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from plait.domain.answers.search import RepositoryRevision
from plait.domain.memory import MemoryEntry
from plait.domain.retention import Step


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind`: missing, extra or different. `counts`: nodes by what they are, edges by relation."""

    kind: str
    total: int
    counts: Mapping[str, int]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one repository's graph compares with the truth."""

    revision: RepositoryRevision
    consistent: bool
    nodes: int
    edges: int
    differences: tuple[Difference, ...]
    waiting: int
    dead_letters: int
    checked: bool
    took_ms: float


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did, or would do. `id` empty: nothing was done."""

    id: str
    dry_run: bool
    steps: tuple[Step, ...]
    steps_left_out: int
    summaries: tuple[MemoryEntry, ...]
    examined: int
    closed: int
    tokens_before: int
    tokens_after: int
    budget_tokens: int
    notes: tuple[str, ...]
    undo_until: datetime | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What is gone, or would go. `left` all zero is the proof; `graph_done`: of the graph too."""

    id: str
    dry_run: bool
    memory_ids: tuple[UUID, ...]
    episode_ids: tuple[UUID, ...]
    memories: int
    episodes: int
    removed: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    graph_done: bool = False
    reclaimed: tuple[str, ...] = ()  # tables that were rewritten
    # Files that still hold bytes of it, until `reclaim` and until the log is overwritten; None: not known.
    table_files: int | None = None
    log_files: int | None = None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Changes that were given up, oldest first; `total` of them in all."""

    letters: tuple[Letter, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Letter:
    event_id: int
    repository: str
    kind: str
    attempts: int
    cause: str
    died_at: datetime
