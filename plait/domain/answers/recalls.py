"""What a recall answers, and a report on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from plait.domain.answers.search import Degradation, RepositoryRevision
from plait.domain.memory import NOW, AsOf
from plait.domain.recall import (
    Dropped,
    Impact,
    Omission,
    RecalledItem,
    RecallId,
    StageRank,
    TokenCount,
)
from plait.domain.values import ItemId, Timing


@dataclass(frozen=True, slots=True)
class RecallResult:
    """A context for a prompt, with its items and how they were found.

    `silence`: why `context` is empty, "" if it is not. `recall_id` None: no receipt was stored.
    `why_not`: the fates of the requested items. `ranks`: with `explain`, by item its rank stage by stage.
    """

    recall_id: RecallId | None
    context: str
    items: tuple[RecalledItem, ...]
    omitted: tuple[Omission, ...]
    tokens: int  # of `context`, never over `budget`
    budget: int
    counted: TokenCount
    silence: str
    kind: str  # of query: symbol, natural, stack-trace, diff, temporal, transactional
    impact: Impact
    revisions: tuple[RepositoryRevision, ...]
    degraded: tuple[Degradation, ...]
    why_not: Mapping[ItemId, Dropped] = field(default_factory=dict)
    ranks: Mapping[ItemId, tuple[StageRank, ...]] = field(default_factory=dict)
    timings: tuple[Timing, ...] = ()
    took_ms: float = 0.0
    as_of: AsOf = NOW

    def __bool__(self) -> bool:
        return bool(self.items or self.impact)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recall answered again. `same`: context and items are those of the first answer."""

    recall: RecallResult
    same: bool


@dataclass(frozen=True, slots=True)
class FeedbackTaken:
    """What was done with a report. `repeated`: it was taken in before, and nothing was written now."""

    accepted: int
    unknown: tuple[UUID, ...]  # were not part of the recall
    attributed: int  # items that the outcome alone was attributed to
    links: int  # VALIDATED_BY links written
    repeated: bool
    request_id: str
