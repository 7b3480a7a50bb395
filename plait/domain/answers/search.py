"""The result of a search, and the parts that every result shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plait.domain.memory import NOW, AsOf
from plait.domain.values import Hit, ItemId, Timing

if TYPE_CHECKING:  # a search loads a recall's values only where it explains itself
    from plait.domain.recall import Dropped, StageRank


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
    """A part that was unavailable, and why."""

    part: str
    cause: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits best first. `degraded` empty: the answer is complete. `why_not`: the fates of the requested
    items. `ranks`: with `explain`, by item its rank stage by stage."""

    hits: tuple[Hit, ...]
    revisions: tuple[RepositoryRevision, ...]
    degraded: tuple[Degradation, ...]
    timings: tuple[Timing, ...]
    took_ms: float
    as_of: AsOf = NOW  # the requested instants, resolved from words
    why_not: Mapping[ItemId, Dropped] = field(default_factory=dict)
    ranks: Mapping[ItemId, tuple[StageRank, ...]] = field(default_factory=dict)
