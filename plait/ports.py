"""What the core and the ETL ask of stores and models: Protocols in verbs.

Adapters satisfy these by shape (`vector/`, `graph/`, `plait/embedding/`); nothing inherits from them.
Every method may raise `StoreUnavailable`; further errors are named where they arise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import numpy.typing as npt

from plait.domain.answers import GraphEdge as GraphEdge
from plait.domain.answers import GraphNode as GraphNode
from plait.domain.answers import GraphPath as GraphPath
from plait.domain.answers import GraphResult as GraphResult
from plait.domain.deadline import Deadline
from plait.domain.errors import RequestIdReused
from plait.domain.graph import Edge, Link, Node
from plait.domain.memory import (
    NOW,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMatch,
    MemoryPage,
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryWrite,
    TurnReceipt,
)
from plait.domain.retention import Compaction, CompactionPlan, ForgetReceipt, Selector
from plait.domain.scope import DEFAULT_TENANT, Scope
from plait.domain.values import (
    Candidate,
    Chunk,
    Collection,
    Episode,
    EpisodeReceipt,
    Filter,
    Item,
    ItemId,
    Revision,
)

Vectors = npt.NDArray[np.float32]  # (n, dim), rows of unit length


# -- embedding ------------------------------------------------------------------------------------


class EmbeddingProvider(Protocol):
    """Texts to unit vectors. One model, one dimension, for the life of the object."""

    @property
    def model(self) -> str:
        """A stable id; vectors of different ids are never compared."""
        ...

    @property
    def dim(self) -> int: ...

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape `(len(texts), dim)`, float32, unit rows, in the order of `texts`.

        Raises:
            EmbeddingUnavailable: the provider does not answer, after retries.
            EmbeddingRefused: it refused for good.
        """
        ...

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Shape `(dim,)`. Raises as `embed_documents`."""
        ...

    async def close(self) -> None: ...


# -- the truth: indexing ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What the truth knows of one file at the revision a draft starts from."""

    path: str
    content_hash: bytes
    language: str
    graph_hash: bytes  # digest of (nodes, edges) blobs; b"" when the file has none
    lines: int = 0


@dataclass(frozen=True, slots=True)
class FileRow:
    """One indexed file. `facts`: the extractor's findings (opaque here), resolved again on each run."""

    path: str
    content_hash: bytes
    language: str
    size_bytes: int
    lines: int
    facts: bytes
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class FileGraph:
    """One file's part of the graph: opaque blobs of `plait.domain.graph` and their digest."""

    path: str
    nodes: bytes
    edges: bytes
    graph_hash: bytes


@dataclass(frozen=True, slots=True)
class Segment:
    """An immutable BM25 segment over new chunks; document `i` is `ids[i]`.

    `postings[term]` is `(docs, tfs)`: int32 document numbers ascending, uint8 frequencies capped at 255.
    `lengths` is int32, tokens a document.
    """

    ids: Sequence[ItemId]
    lengths: npt.NDArray[np.int32]
    terms: Sequence[str]
    docs: Sequence[bytes]
    tfs: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Draft:
    """A revision being written: invisible until `publish`, thrown away by the next `begin` if it never is."""

    repo_id: int
    repo: str
    number: int
    base: int  # the published revision it starts from; 0 for none
    embedding_model: str = ""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts of one published run, kept with the revision."""

    files: int = 0
    chunks: int = 0
    nodes: int = 0
    edges: int = 0
    unresolved: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)


class IndexStore(Protocol):
    """Write one repository's next revision. Readers see the old one until `publish`, then the new one."""

    async def begin(
        self, repo: str, root: str, *, move: bool = False, tenant: str = DEFAULT_TENANT
    ) -> Draft:
        """Open a draft, and remove what a broken earlier draft left.

        Holds a lock on `repo` until `publish`, `discard` or `close`.

        Raises:
            RepositoryBusy: another process holds the lock.
            RepositoryNameTaken: the name belongs to another root and `move` is False, or to another
                tenant.
            InvalidInput: `repo` is new and reads as a name of another tenant.
            SchemaMismatch: the database's migrations differ.
        """
        ...

    async def stored_files(self, draft: Draft) -> dict[str, StoredFile]:
        """Every file of the base revision, by path."""
        ...

    def facts(
        self, draft: Draft, paths: Iterable[str] | None = None
    ) -> AsyncIterator[tuple[str, bytes]]:
        """`(path, facts)` of the base revision's files; all of them when `paths` is None."""
        ...

    async def write_files(self, draft: Draft, files: Sequence[FileRow]) -> None:
        """Add or replace files (their chunks too: write them after). Up to 500 items a transaction."""
        ...

    async def write_chunks(self, draft: Draft, chunks: Sequence[Chunk]) -> None:
        """Add chunks of files written in this draft. A chunk whose `content_hash` has a vector
        somewhere in this index takes it over. Up to 500 items a transaction."""
        ...

    async def write_segment(self, draft: Draft, segment: Segment) -> None:
        """Add one BM25 segment over chunks of this draft."""
        ...

    async def write_graph(self, draft: Draft, parts: Sequence[FileGraph]) -> None:
        """Add or replace files' parts of the graph. Up to 500 items a transaction."""
        ...

    async def retire(self, draft: Draft, paths: Sequence[str]) -> None:
        """Take files, their chunks and their parts of the graph out of the draft."""
        ...

    async def publish(self, draft: Draft, stats: IndexStats) -> Revision:
        """Show the draft to readers, and queue its projection to the graph: one transaction."""
        ...

    async def discard(self, draft: Draft) -> None:
        """Throw the draft away and release the lock. Nothing changed: no new revision."""
        ...

    async def repositories(self, tenant: str | None = None) -> list[Revision]:
        """The published repositories of `tenant`, by name; of every tenant for None (maintenance)."""
        ...

    async def tenants(self) -> list[str]:
        """Every tenant that has, or had, a repository here (maintenance, and what reads the whole graph)."""
        ...

    async def revision(self, repo: str) -> Revision:
        """Raises: RepositoryNotIndexed."""
        ...

    async def delete_repository(self, repo: str, tenant: str = DEFAULT_TENANT) -> None:
        """Remove a repository whole, and queue its removal from the graph.

        Raises: RepositoryNotIndexed, also for one of another tenant.
        """
        ...

    async def close(self) -> None: ...


# -- the truth: vectors that fill in behind -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingText:
    """A text that waits for its vector. Chunks with equal `content_hash` share one."""

    content_hash: bytes
    text: str


class VectorQueue(Protocol):
    async def ensure_space(self, model: str, dim: int) -> None:
        """Record the index's one model and dimension, or check them.

        Raises: EmbeddingModelMismatch.
        """
        ...

    async def pending(self, repo: str, limit: int, *, code: bool = True) -> Sequence[PendingText]:
        """Texts of the published revision without a vector, most useful first (agents' items, then code
        before tests before docs; without `code` agents' items only); `text` is the header line
        `path qualified.name` + newline + content."""
        ...

    async def store_vectors(self, hashes: Sequence[bytes], vectors: Vectors) -> None:
        """Give every chunk with one of `hashes` its vector; one transaction; safe to repeat."""
        ...

    async def coverage(self, repo: str) -> tuple[int, int]:
        """`(embedded, all)` chunks of the published revision."""
        ...

    async def finish(self, repo: str) -> None:
        """Build or refresh what nearest-neighbour search needs after a load (HNSW, statistics)."""
        ...


# -- the truth: reading ----------------------------------------------------------------------------------


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


# -- the truth: episodes -----------------------------------------------------------------------------------


class EpisodeStore(Protocol):
    async def append(self, episode: Episode) -> EpisodeReceipt:
        """Store an episode, its items, its outbox row and its answer in one transaction.

        Raises: RequestIdReused, when the request id was stored with another body hash.
        """
        ...

    async def append_many(
        self, episodes: Sequence[Episode]
    ) -> list[EpisodeReceipt | RequestIdReused]:
        """As `append` for each, in that order, up to 500 items a transaction. One that reuses a
        request id has its error in its place; the others are stored."""
        ...


# -- the truth: memories -----------------------------------------------------------------------------------


class MemoryStore(Protocol):
    """Memories of one tenant at a time; row security holds each call to its tenant."""

    async def store(
        self, tenant: str, writes: Sequence[MemoryWrite]
    ) -> list[MemoryReceipt | RequestIdReused]:
        """Store up to 500 memories, their text index and their outbox row in one transaction; each
        receipt in its write's place.

        Raises: MemoryNotFound, for a `supersedes` that is not there (nothing is stored then).
        """
        ...

    async def store_turn(
        self,
        tenant: str,
        repo: str,
        request_id: str,
        body_hash: bytes,
        entries: Sequence[MemoryEntry],
        note: str = "",
    ) -> TurnReceipt:
        """Store what one turn led to under one request id, in one transaction; without entries only
        the answer `note`. Raises: RequestIdReused."""
        ...

    async def turn(self, tenant: str, request_id: str, body_hash: bytes) -> TurnReceipt | None:
        """The answer to a turn that was stored before. Raises: RequestIdReused."""
        ...

    async def link_similar(self, repo: str, hashes: Sequence[bytes]) -> int:
        """Link memories whose text has one of `hashes` to those of the same agent that are as near as
        `memory.near_duplicate` by their vectors, once these are stored; links made. Safe to repeat."""
        ...

    async def get(self, tenant: str, repo: str, id_: MemoryId, as_of: AsOf = NOW) -> MemoryEntry:
        """The version of entry `id_` as of those times; `id_` may also be that of a version (as search
        hits have it). Raises: MemoryNotFound."""
        ...

    async def query(
        self,
        text: str,
        vector: npt.NDArray[np.float32] | None,
        options: MemoryQueryOptions,
    ) -> list[MemoryMatch]:
        """The best by BM25 and cosine together, best first, ties by id. Raises: ScopeMissing."""
        ...

    async def delete(self, tenant: str, repo: str, id_: MemoryId) -> None:
        """Close an entry: gone from reads as of now, its history stays. Closing twice is no error.

        Raises: MemoryNotFound.
        """
        ...

    async def recalled(self, scope: Scope, texts: Sequence[str]) -> list[bool]:
        """For each text, whether the scope holds a living memory with the same words."""
        ...

    async def list(
        self,
        where: MemoryFilter,
        *,
        limit: int,
        after: str = "",
        as_of: AsOf = NOW,
        include_superseded: bool = False,
    ) -> MemoryPage:
        """Newest first by `created_at`, ties by id, the larger first. With `include_superseded` every
        version, closed ones and those that are not valid now too. Raises: ScopeMissing,
        PageTokenInvalid."""
        ...


class RetentionStore(Protocol):
    async def living(self, scope: Scope) -> list[MemoryEntry]:
        """Every living memory of (repository, agent), oldest first, with its vector if it has one.
        An agent "" is that of memories that name none."""
        ...

    async def usage(
        self, tenant: str, repo: str = "", agent_id: str | None = None
    ) -> Mapping[tuple[str, str], int]:
        """Tokens of living memories by (qualified repository, agent): of all, of one repository's, or
        of one agent's there."""
        ...

    async def compact(
        self, tenant: str, plan: CompactionPlan, undo_s: float, request_id: str = ""
    ) -> Compaction:
        """Carry a plan out in one transaction: all of it or nothing. A `request_id` that was carried
        out before gets the same compaction again.

        Raises: StoreContended, when a memory of the plan has changed since it was made.
        """
        ...

    async def compacted(self, tenant: str, repo: str, request_id: str) -> Compaction | None:
        """The compaction that this request led to, as far as nothing of it was forgotten."""
        ...

    async def undo(self, tenant: str, compaction_id: UUID) -> int:
        """Bring back what a compaction closed and close its summaries; entries brought back. One whose
        text was stored again since is not brought back: it is there.

        Raises: CompactionUnknown, UndoExpired.
        """
        ...

    async def forget(
        self, tenant: str, repo: str, selector: Selector, *, dry_run: bool
    ) -> ForgetReceipt:
        """Remove for good, from rows, versions, text index, vectors, evidence, links and request
        records, and queue the removal from the graph. Raises: InvalidInput, for an empty selector."""
        ...

    async def reclaim(self) -> list[str]:
        """Rewrite the tables that `forget` took rows from, so that their files hold nothing of them;
        the tables. Each is locked meanwhile."""
        ...


# -- projection: truth → graph ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphDelta:
    """What one outbox event changes in the graph, in an order that can be cut into batches.

    Apply in this order: delete `drop_edges` (each by relation, source and target: exactly these, since
    an edge may belong to another file than its source does, as VALIDATED_BY and `repo CONTAINS file`
    do), delete `drop_nodes` with whatever edges are left on them, write `nodes` (an id that exists is
    updated in place and keeps its edges), write `edges` (each is new or was dropped just before).
    `fresh`: the aggregate has nothing in the graph yet, so CREATE will do.

    A delta of the memory layer (`number` 0) says how its nodes and links are now, so it may be applied
    again, and may differ when it is made again. `fence` grows with every claim of the repository's
    events: a graph that has seen a larger one takes no smaller one any more. 0: not guarded.
    """

    event_id: int
    repo: str
    number: int  # the revision the graph shows once all is applied; 0 for an episode
    fresh: bool
    drop_edges: Sequence[Edge]
    drop_nodes: Sequence[str]
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    links: Sequence[Link] = ()  # written last: created, or by `Link.id` updated in place
    remove_repo: bool = False
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # extra, by node id
    drop_links: Sequence[Link] = ()  # by relation, source and id, before `drop_nodes`
    recorded_from: int = 0  # ms since 1970: when revision `number` was published
    fence: int = 0
    attempt: int = 1  # which try of the event this is


@dataclass(frozen=True, slots=True)
class DeadLetter:
    event_id: int
    repo: str
    kind: str
    attempts: int
    cause: str
    died_at: datetime


@dataclass(frozen=True, slots=True)
class GraphContents:
    """A repository's part of the graph, to be compared: by node id a digest of what the node holds,
    and each edge's `(relation, source, target, link id or 0)` with a digest of its properties.
    Times at which something was written to the graph are in no digest."""

    nodes: Mapping[str, bytes]
    edges: Mapping[tuple[str, str, str, int], bytes]


class Outbox(Protocol):
    """Events that wait to be projected; claims are leases that a dead claimer loses."""

    async def claim(self) -> GraphDelta | None:
        """The oldest event that can run now (one at a time for each repository), or None.

        Marks the repository's graph as changing, see `epoch`.
        """
        ...

    async def done(self, event_id: int) -> None:
        """The graph holds the event: mark it, and the repository's graph as steady."""
        ...

    async def failed(self, event_id: int, cause: str, *, permanent: bool) -> bool:
        """Give it back for a later try, or move it to the dead letters with its cause. Of several
        events in one delta only the one that is to blame ends there: they are cut in two and come
        again in smaller deltas, at once, which the answer True says."""
        ...

    async def waiting(self, repos: Sequence[str] = ()) -> int:
        """Events not yet projected, of `repos` or of all."""
        ...

    async def epoch(self, repos: Sequence[str], *, memory: bool = True) -> tuple[int, bool]:
        """`(number, changing)` over `repos` (all when empty): a reader whose query ran between two
        equal epochs with `changing` False saw one state of the graph. `memory` False: of its code,
        whatever happens to episodes and memories meanwhile."""
        ...

    async def expected(self, repo: str) -> GraphContents:
        """What the graph has to hold of `repo` now that nothing of it waits. Raises:
        RepositoryNotIndexed."""
        ...

    async def dead(self, repos: Sequence[str]) -> list[DeadLetter]:
        """Events that were given up, oldest first."""
        ...

    async def revive(self, repos: Sequence[str]) -> int:
        """Queue dead letters again; how many."""
        ...

    async def reset(self, repo: str) -> None:
        """Queue a full projection of the published revision, as for a graph that lost it."""
        ...


# -- the graph ----------------------------------------------------------------------------------------------------


class GraphStore(Protocol):
    async def apply(self, delta: GraphDelta) -> None:
        """Project one event: 500-item transactions, each with its event id and batch number, so that
        a repeat after a crash goes on where the last committed batch ended."""
        ...

    async def query(
        self,
        cypher: str,
        parameters: Mapping[str, Any],
        *,
        max_rows: int,
        deadline: Deadline,
        as_of: AsOf = NOW,
    ) -> GraphResult:
        """Run one guarded, read-only statement. It may use `$valid_as_of` and `$recorded_as_of`:
        `as_of` in ms since 1970, the time of the call where it says nothing.

        Raises: CypherRefused, CypherInvalid, DeadlineExceeded, ResultTooLarge.
        """
        ...

    async def template(
        self,
        name: str,
        parameters: Mapping[str, Any],
        *,
        max_rows: int,
        deadline: Deadline,
        as_of: AsOf = NOW,
    ) -> GraphResult:
        """Run a named template; those of the memory layer answer as of `as_of`. Raises:
        UnknownTemplate, InvalidInput, and as `query`."""
        ...

    async def counts(self, repo: str = "") -> Mapping[str, int]:
        """Nodes by label and edges by relation, of one repository or of all."""
        ...

    async def contents(self, repo: str) -> GraphContents:
        """All that the graph holds of `repo`, for comparison. An edge that is there twice has another
        digest than one that is there once."""
        ...

    async def close(self) -> None: ...
