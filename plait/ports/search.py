"""The truth: candidates from each arm, and the items behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import numpy.typing as npt

from plait.domain.scope import DEFAULT_TENANT
from plait.domain.values import (
    Candidate,
    Collection,
    Filter,
    Item,
    ItemId,
    Revision,
)


@dataclass(frozen=True, slots=True)
class View:
    """The revisions and times one answer is read at. Get one a request; pass it to every read.

    What a read may see is the view's: tenant, repositories and times of the filter it was made with;
    a later filter only narrows it."""

    revisions: tuple[Revision, ...]
    model: str  # embedding model of the index; "" when nothing is embedded yet
    dim: int
    tenant: str = DEFAULT_TENANT
    valid: datetime | None = None  # rows that hold at this time; None: at the moment of the read
    recorded: datetime | None = None  # as it was known then; None: what is known now


@dataclass(frozen=True, slots=True)
class Place:
    """Where a candidate stands: enough to rank it, without its text."""

    repo: str
    collection: Collection
    path: str
    symbol: str
    kind: str
    is_test: bool

    @property
    def file(self) -> tuple[str, str]:
        """`(repo, path)`."""
        return (self.repo, self.path)


class SearchStore(Protocol):
    """Candidates from each arm. Larger scores are better, scales differ between arms."""

    async def view(self, where: Filter) -> View:
        """The published revisions of `where.repos` (all of `where.tenant` when empty), or those that
        were published at `where.as_of.recorded`.

        Raises:
            RepositoryNotIndexed: a named one is not, or is another tenant's.
            HistoryGone: code is asked for, and that revision of it is no longer kept.
        """
        ...

    async def lexical(
        self, view: View, terms: Sequence[str], where: Filter, k: int
    ) -> list[Candidate]:
        """The `k` best by BM25 (k1 and b in `vector/bm25.py`), best first, ties by id."""
        ...

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        """The `k` highest cosine similarities, best first, ties by id.

        Raises: EmbeddingModelMismatch, when `vector` does not have shape `(view.dim,)`.
        """
        ...

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        """Items that hold the words of `phrase` in a row, by `ts_rank`."""
        ...

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        """Symbols whose name is similar by trigrams, for misspelt identifiers."""
        ...

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        """Where the items behind candidates stand, in the order of `ids`; what is gone is left out."""
        ...

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        """The items behind candidates; ids that are gone are left out."""
        ...
