"""What the client's calls return: frozen values, of the domain's own where those fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from plait.domain.answers import GraphEdge, GraphNode, GraphPath
from plait.domain.memory import NOW, AsOf
from plait.domain.recall import StageRank
from plait.domain.values import EpisodeReceipt, Hit, Item, ItemId, Timing

if TYPE_CHECKING:
    from plait.domain.recall import Dropped
    from plait.domain.retention import Budget

__all__ = [
    "AppendedEpisode",
    "Degradation",
    "EpisodeReceipt",
    "GraphAnswer",
    "GraphEdge",
    "GraphNode",
    "GraphPath",
    "Hit",
    "IndexJob",
    "Item",
    "MemoryUsage",
    "Repository",
    "RepositoryRevision",
    "SearchResult",
    "StageRank",
    "Stats",
    "Timing",
]


@dataclass(frozen=True, slots=True)
class RepositoryRevision:
    """What an answer was read at. `embedded` of `total` chunks have a vector."""

    repository: str
    revision: int
    graph_revision: int
    embedded: int
    total: int


@dataclass(frozen=True, slots=True)
class Degradation:
    """A part that could not be asked, and why."""

    part: str
    cause: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits best first. `degraded` empty: the answer is whole. `why_not`: the fates of the items asked
    about. `ranks`: with `explain`, by item its rank stage by stage."""

    hits: tuple[Hit, ...]
    revisions: tuple[RepositoryRevision, ...]
    degraded: tuple[Degradation, ...]
    timings: tuple[Timing, ...]
    took_ms: float
    as_of: AsOf = NOW  # the instants asked for, words resolved
    why_not: Mapping[ItemId, Dropped] = field(default_factory=dict)
    ranks: Mapping[ItemId, tuple[StageRank, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """Rows of typed cells: None, bool, int, float, str, bytes, list, dict, GraphNode, GraphEdge, GraphPath."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    truncated: bool
    revisions: tuple[RepositoryRevision, ...]
    degraded: tuple[Degradation, ...]
    took_ms: float
    as_of: AsOf = NOW

    def records(self) -> Sequence[Mapping[str, Any]]:
        """The rows as mappings by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class AppendedEpisode:
    """`repeated`: the request id was stored before, and this is the first answer again."""

    episode_id: str
    item_ids: tuple[str, ...]
    repeated: bool
    request_id: str
    masked: int = 0  # credentials that were covered in it


@dataclass(frozen=True, slots=True)
class Repository:
    name: str
    root: str
    revision: RepositoryRevision
    files: int
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class IndexJob:
    """`state`: queued, running, published, succeeded, failed or cancelled; the last three are final."""

    id: str
    repository: str
    path: str
    state: str
    stage: str
    done: int
    total: int
    unit: str
    elapsed_s: float
    counts: Mapping[str, int] = field(default_factory=dict)
    languages: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    revision: RepositoryRevision | None = None
    error_reason: str = ""
    error_message: str = ""

    @property
    def final(self) -> bool:
        return self.state in ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """`tokens` of living memories of `budget_tokens` (0: no limit); `closed` by compaction, and found below
    what stands for them."""

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
