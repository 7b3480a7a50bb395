"""Rules of the core that a store applies inside its transactions, to the rows read there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plait.domain.recall import Attribution, Feedback, Receipt
from plait.ports.episodes import IndexedText, NumberedEpisode, PreparedEpisode


@dataclass(frozen=True, slots=True)
class Rules:
    """Pure functions, without I/O. A store is opened with them and calls no others."""

    # The texts of an episode's items: before `prepare`, so that a store can write its text index meanwhile.
    indexed_texts: Callable[[NumberedEpisode], Sequence[IndexedText]]
    prepare: Callable[[NumberedEpisode], PreparedEpisode]
    attribute: Callable[[Feedback, Receipt], Attribution]
    source_cap: float  # largest weight of one source's feedback on an item
