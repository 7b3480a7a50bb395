"""The primary store: candidates of each arm, and their items."""

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
    """A snapshot: the revisions and times at which one answer is read. Get one a request; pass it to every read.

    It fixes tenant, repositories and times from its filter; filters of later reads only narrow it."""

    revisions: tuple[Revision, ...]
    model: str  # embedding model of the index; "" when nothing is embedded yet
    dim: int
    tenant: str = DEFAULT_TENANT
    valid: datetime | None = None  # rows valid at this time; None: at the moment of the read
    recorded: datetime | None = None  # rows as recorded then; None: as recorded now
    # Of the code of its repositories; "": not told, as of a past time. Where `CodeVersions.version` still says the same,
    # a search of their code finds the same.
    version: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Location and metadata of a candidate: enough to rank it without its text."""

    repo: str
    collection: Collection
    path: str
    symbol: str
    kind: str
    is_test: bool
    start_line: int = 0  # 1-based, inclusive; 0: no file
    end_line: int = 0
    # Only for agents' items:
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
    """A reference to code in a text. `path`: whole, or a suffix from a `/` (stack traces give absolute paths, so it may
    also be longer than in the repository). `symbol`: a qualified name, or a suffix from a `.`. Lines 1-based,
    inclusive; 0: any. `path` or `symbol` is not empty."""

    path: str = ""
    symbol: str = ""
    start_line: int = 0
    end_line: int = 0
    repo: str = ""  # qualified; "": any of the view


@dataclass(frozen=True, slots=True)
class ItemState:
    """The state of an agents' item: of its anchor in the current index, its evidence and its compaction.

    `anchored`: it names a path or a symbol. `has_baseline`: the hash of the anchored code when the item was recorded is
    stored. `exists`, `changed`: the anchored code now. `proven`: a passed test validates the item (VALIDATED_BY), or its
    run succeeded with passed tests. `external`: its text came from outside. `named`: the anchors that its text names and
    the index had when it was recorded. `entry`: the memory of which it is a version. `compacted`: compaction closed it,
    and `replaced_by` replaces it."""

    anchored: bool
    has_baseline: bool = False
    exists: bool = False
    changed: bool = False
    proven: bool = False
    external: bool = False
    named: tuple[NamedAnchor, ...] = ()
    entry: UUID | None = None
    compacted: bool = False
    replaced_by: UUID | None = None


# By memory, its neighbours with their offsets: -1 right before, 1 right after, 2 the one after that.
Around = Mapping[ItemId, Mapping[ItemId, int]]


class CodeVersions(Protocol):
    """Whether a search of code would still find what it found."""

    async def version(self, repos: Sequence[str]) -> str:
        """The version of the code of `repos` (qualified names) now, as `View.version` has it: another one after each
        publish, removal, and vector that filled in. Costs one small read, shared by those who ask at once.

        Raises: StoreUnavailable.
        """
        ...


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

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate] | None:
        """The `k` chunks of code with the highest cosine by the static table, best first, ties by id. `counts`: the
        query's BM25 terms. Empty where the index has no such vectors, and where the table knows no term of the query;
        None for views of more than a million chunks, over which it is not asked."""
        ...

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        """The cosine with `vector` of those of `ids`, chunks that `view` sees, that have the model's vector."""
        ...

    async def missed(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        """The cosine with `vector` of those of `ids` that `nearest` may have missed: agents' items with a vector, of
        collections of which it asks an approximate index. Empty where it compares one by one."""
        ...

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        """Items that hold the words of `phrase` in a row, by `ts_rank`."""
        ...

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        """Symbols whose name is similar by trigrams, for misspelt identifiers."""
        ...

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        """Location and metadata of the items, in the order of `ids`; removed ones are left out."""
        ...

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        """The items; removed ones are left out."""
        ...

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        """For each reference the chunks that it matches, at most `k`, the narrowest that contains its lines first. An
        ambiguous suffix gives the chunks of all matches."""
        ...

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        """For each `(repo, path, symbol)` its first chunk: the one with the symbol's own line."""
        ...

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        """For memories of a session (or of a run without one): up to `reach` neighbours in the session before and after
        each that match `where`. Other memories are left out."""
        ...

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        """The states of agents' items in the revisions of `view`. Code is left out."""
        ...

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        """For each BM25 term the forms used in the names of the view's symbols: itself if a name contains it, else up to
        `k` related terms (serialize for serialization), most used first. Terms without either are left out; empty if
        the repositories are many or very large."""
        ...
