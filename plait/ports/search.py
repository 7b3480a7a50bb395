"""The truth: candidates from each arm, and the items behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

import numpy as np
import numpy.typing as npt

from plait.domain.recall import NamedAnchor
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
    start_line: int = 0  # 1-based, inclusive; 0: no file
    end_line: int = 0
    # What only agents' items have:
    importance: float = 0.5
    ts: datetime | None = None  # since when it holds, else when it was written
    type: str = ""  # episodic, semantic, procedural
    source: str = ""  # agent, user, system
    agent_id: str = ""
    session_key: str = ""
    tags: tuple[str, ...] = ()
    episode_id: UUID | None = None
    tokens: int = 0  # of a memory's text; 0: not counted
    is_question: bool = False  # a memory that is nothing but a question
    announces_step: bool = False  # an agent's, about what it will do or asks whether to do next

    @property
    def file(self) -> tuple[str, str]:
        """`(repo, path)`."""
        return (self.repo, self.path)


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in code as a text names it. `path`: whole, or its end at a `/` (stack traces give absolute
    ones, so `path` may also be longer than the repository's). `symbol`: a qualified name, or its end at a
    `.`. Lines 1-based, inclusive; 0: any. At least `path` or `symbol` is there."""

    path: str = ""
    symbol: str = ""
    start_line: int = 0
    end_line: int = 0
    repo: str = ""  # qualified; "": any of the view


@dataclass(frozen=True, slots=True)
class Standing:
    """What the current index says of where a memory is anchored, and of what stands behind it.

    `anchored`: the memory names a path or a symbol. `known`: how the anchor read when the memory was
    recorded is on record. `there`, `changed`: the anchor now. `proven`: a test that passed validates it
    (VALIDATED_BY), or its run succeeded with tests that passed. `external`: its text came from outside.
    `named`: what its text names besides, as far as it was in the index when it was recorded. `entry`: the
    memory of which it is a version. `compacted`: compaction closed it, `replaced_by` stands for it."""

    anchored: bool
    known: bool = False
    there: bool = False
    changed: bool = False
    proven: bool = False
    external: bool = False
    named: tuple[NamedAnchor, ...] = ()
    entry: UUID | None = None
    compacted: bool = False
    replaced_by: UUID | None = None


# By memory what stands next to it: the step to it, -1 right before, 1 right after, 2 the one behind that.
Around = Mapping[ItemId, Mapping[ItemId, int]]


class SearchStore(Protocol):
    """Candidates from each arm. Larger scores are better, scales differ between arms."""

    async def view(self, where: Filter) -> View:
        """The published revisions of `where.repos` (all of `where.tenant` when empty), or those that
        were published at `where.as_of.recorded`.

        Raises:
            RepositoryNotIndexed: a named one is not, or is another tenant's, unless `skip_unknown`.
            HistoryGone: code is asked for, and that revision of it is no longer kept.
        """
        ...

    async def lexical(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        k: int,
        weights: Mapping[str, float] | None = None,
    ) -> list[Candidate]:
        """The `k` best by BM25 (k1 and b in `vector/index/bm25.py`), best first, ties by id. `weights` multiplies
        what a term adds; one that is not in it counts whole."""
        ...

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        """How many documents `lexical` ranks, and in how many of them each of `terms` is, 0 for in none."""
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

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        """For each spot the chunks there, at most `k`, the narrowest that holds its lines first. Ambiguous
        ends of paths and names give the chunks of all that fit; none gives an empty list."""
        ...

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        """For each `(repo, path, symbol)` its first chunk: the one with the symbol's own line."""
        ...

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        """Of memories that were said in a session, or in a run without one: up to `reach` of the same
        session before and after each, as far as they match `where`. Others are left out."""
        ...

    async def standing(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Standing]:
        """Of agents' items: what the revisions of `view` say of their anchors. Code is left out."""
        ...

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        """For each BM25 term how the names of the view's symbols say it: itself where one of them holds it,
        else up to `k` terms of its family (serialize for serialization), most used first. What has neither
        is left out, and so is everything where the repositories are many or very large."""
        ...
