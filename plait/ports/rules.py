"""Rules of the core that a store applies inside its transactions, to the rows read there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from plait.domain.memory import MemoryId
from plait.domain.recall import Attribution, Feedback, Receipt
from plait.ports.episodes import IndexedText, NumberedEpisode, PreparedEpisode
from plait.ports.evidence import EvidenceRules
from plait.ports.memory_plan import Plan, Prepared, Row


@dataclass(frozen=True, slots=True)
class Rules:
    """Pure functions, without I/O. A store is opened with them and calls no others."""

    # The texts of an episode's items: before `prepare`, so that a store can write its text index meanwhile.
    indexed_texts: Callable[[NumberedEpisode], Sequence[IndexedText]]
    prepare: Callable[[NumberedEpisode], PreparedEpisode]
    # (repository, writes, living entries with the key of one, by id what a write supersedes): see
    # `plait.memory.plan_batch.plan`.
    plan_memories: Callable[[str, Sequence[Prepared], Iterable[Row], Mapping[MemoryId, Row]], Plan]
    attribute: Callable[[Feedback, Receipt], Attribution]
    evidence: EvidenceRules
    source_cap: float  # largest weight of one source's feedback on an item
