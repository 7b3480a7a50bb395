"""What retention decides and what forgetting proves. Frozen values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from plait.domain.memory import MemoryEntry, MemoryId


class Budget(StrEnum):
    """What shares one budget of tokens inside a scope; see docs/retention.md."""

    STORED = "stored"  # what agents and people store explicitly, and summaries of it
    RUNS = "runs"  # the record of runs: turns, notes, and summaries of those


@dataclass(frozen=True, slots=True)
class Usage:
    """What one (repository, agent) has of one budget: `tokens` of living memories. `closed`: memories that
    compaction closed and that are found nonetheless."""

    tokens: int = 0
    memories: int = 0
    closed: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """How much a memory is worth keeping, by what became of it. `recalls`: contexts that held it, less
    those in which it misled; `links`: to code, tests, issues, runs and other memories. `validated`: a test
    that passed validates it, or the run it is of."""

    recalls: int = 0
    links: int = 0
    validated: bool = False


UNUSED = Use()


@dataclass(frozen=True, slots=True)
class Summary:
    """`by`: what wrote it. `degraded`: why it was not what the settings ask for, in plain words."""

    text: str
    by: str = "extractive"
    degraded: str = ""


class Action(StrEnum):
    SUMMARIZE = "summarize"  # closed; replaced by a summary, linked to it
    DEDUPLICATE = "deduplicate"  # closed; an equal or near-equal one stays
    PIN = "pin"  # stays whatever the budget: a recent success or failure


@dataclass(frozen=True, slots=True)
class Step:
    """One decision about one memory. `into`: the memory that replaces it (none for PIN)."""

    action: Action
    entry_id: MemoryId
    reason: str
    into: MemoryId | None = None
    tokens: int = 0  # of the entry
    version: int = 1  # the version the decision is about: another one makes the plan stale
    into_version: int = 0  # likewise of a duplicate that stays


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction of one scope would do, in order. `summaries` are new entries to store; `notes`
    say what went otherwise than the settings ask for, a model that did not answer for one."""

    repo: str  # qualified
    agent_id: str
    steps: tuple[Step, ...]
    summaries: tuple[MemoryEntry, ...]
    examined: int
    tokens_before: int
    tokens_after: int
    budget_tokens: int
    notes: tuple[str, ...] = ()
    budget: Budget = Budget.STORED

    @property
    def closed(self) -> tuple[Step, ...]:
        """The steps that close their entry."""
        return tuple(step for step in self.steps if step.into is not None)


@dataclass(frozen=True, slots=True)
class Compaction:
    """A plan that was carried out. It can be undone until `undo_until`."""

    id: UUID
    plan: CompactionPlan
    at: datetime
    undo_until: datetime


@dataclass(frozen=True, slots=True)
class Selector:
    """What to forget inside one repository; at least one field is set, several narrow each other."""

    ids: tuple[UUID, ...] = ()  # memories or episodes
    source: str = ""  # agent, user or system
    agent_id: str = ""
    recorded_from: datetime | None = None  # inclusive
    recorded_to: datetime | None = None  # exclusive

    def __bool__(self) -> bool:
        return bool(
            self.ids or self.source or self.agent_id or self.recorded_from or self.recorded_to
        )


@dataclass(frozen=True, slots=True)
class Held:
    """Files of the truth store that still hold bytes of something forgotten: of tables and their indexes, until
    `reclaim`; of the write-ahead log, until it is overwritten."""

    table_files: int
    log_files: int


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was deleted. `removed`: rows by location (items, versions, segments rewritten, evidence, edges …);
    `left`: what a search for the ids and texts still finds in each location, all zero;
    `reopened`: entries that a forgotten summary had replaced, alive again. The graph's part follows by the
    outbox event `event_id`. `marks`: bytes by which `RetentionStore.held` tells its remains in files."""

    id: UUID
    entries: tuple[UUID, ...]
    episodes: tuple[UUID, ...]
    removed: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    event_id: int = 0
    dry_run: bool = False
    reopened: tuple[UUID, ...] = ()
    marks: tuple[bytes, ...] = field(default=(), repr=False)
