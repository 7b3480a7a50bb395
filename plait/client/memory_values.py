"""What the client's calls about memories and upkeep return: frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.client.values import Degradation, RepositoryRevision
from plait.domain.memory import (
    NOW,
    AsOf,
    MemoryEntry,
    MemoryId,
    MemoryMatch,
    MemoryMetadata,
    MemorySource,
    MemoryType,
)
from plait.domain.retention import Step
from plait.wire.memory_messages import NO_ID


def new_memory(
    content: str,
    *,
    repo: str,
    agent_id: str = "",
    session_key: str = "",
    type: MemoryType = MemoryType.SEMANTIC,
    source: MemorySource = MemorySource.AGENT,
    tags: Sequence[str] = (),
    importance: float = 0.5,
    custom: Mapping[str, Any] | None = None,
    path: str = "",
    symbol: str = "",
    pinned: bool = False,
    embedding: Sequence[float] | None = None,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
) -> MemoryEntry:
    """A memory on its way to `store`; what the server sets is left empty."""
    metadata = MemoryMetadata(
        source, session_key, tuple(sorted(set(tags))), importance, dict(custom or {})
    )
    return MemoryEntry(
        id=NO_ID,
        repo=repo,
        agent_id=agent_id,
        content=content,
        metadata=metadata,
        type=type,
        path=path,
        symbol=symbol,
        pinned=pinned,
        embedding=None if embedding is None else tuple(embedding),
        valid_from=valid_from,
        valid_to=valid_to,
    )


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """`repeated`: the request was stored before. `duplicate`: `entry` had this very text already.
    `similar`: near-duplicates, linked and left as they are."""

    entry: MemoryEntry
    repeated: bool
    duplicate: bool
    similar: tuple[MemoryId, ...]
    request_id: str
    masked: int = 0  # credentials that were covered in it


@dataclass(frozen=True, slots=True)
class Memories:
    """One page, newest first. `next` asks for the next one; empty: this was the last."""

    entries: tuple[MemoryEntry, ...]
    next: str = ""
    as_of: AsOf = NOW


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Matches best first. `degraded` empty: by words and by meaning."""

    matches: tuple[MemoryMatch, ...]
    degraded: tuple[Degradation, ...]
    as_of: AsOf
    took_ms: float


@dataclass(frozen=True, slots=True)
class Tool:
    """What one tool said in a turn. `command`: what was asked of it."""

    tool: str
    content: str = ""
    failed: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """`skipped_cause` says why nothing was kept, if nothing was."""

    entries: tuple[MemoryEntry, ...]
    skipped_cause: str
    repeated: bool
    request_id: str
    masked: int = 0  # credentials that were covered in the turn


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
