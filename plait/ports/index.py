"""The primary store: writing the next revision of a repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from plait.domain.scope import DEFAULT_TENANT
from plait.domain.values import (
    Chunk,
    ItemId,
    Revision,
)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file in the revision that a draft starts from."""

    path: str
    content_hash: bytes
    language: str
    graph_hash: bytes  # digest of (nodes, edges) blobs; b"" when the file has none
    lines: int = 0


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A content of a file that was indexed before and is stored still, with its chunks. `written` names it
    together with the path."""

    path: str
    content_hash: bytes
    language: str
    lines: int
    written: int
    facts: bytes


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another repository of the same tenant that holds much of what a draft needs, as it is published: a second work
    tree of it, say."""

    repo_id: int
    repo: str
    number: int


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
    """A revision being written: invisible until `publish`; the next `begin` discards it if that never happens."""

    repo_id: int
    repo: str
    number: int
    base: int  # the published revision it starts from; 0 for none
    embedding_model: str = ""
    facts_version: int = 0  # of the base's files, as its run gave it; 0 for none
    # Content hashes, in hex, whose parse took longer than so many seconds in an earlier run.
    timed_out: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts of one published run, stored with the revision. `facts_version`: how its files were read;
    `timed_out`: see `Draft`. `relations`, `causes`: edges by relation, references left unresolved by cause.
    `unread`: files that parsing left out, by path, with the cause."""

    files: int = 0
    chunks: int = 0
    nodes: int = 0
    edges: int = 0
    unresolved: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    facts_version: int = 0
    timed_out: Mapping[str, float] = field(default_factory=dict)
    symbols: int = 0
    relations: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


class IndexStore(Protocol):
    """Write one repository's next revision. Readers see the old one until `publish`, then the new one."""

    async def begin(
        self,
        repo: str,
        root: str,
        *,
        move: bool = False,
        tenant: str = DEFAULT_TENANT,
        wait_s: float = 0.0,
    ) -> Draft:
        """Open a draft, and remove the rows of an earlier unpublished one.

        Holds a lock on `repo` until `publish`, `discard` or `close`. Where another process holds it, waits
        for `wait_s` seconds at most, in the order of those who came.

        Raises:
            RepositoryBusy: another process still holds the lock.
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
        somewhere in this index gets it. Up to 500 items a transaction."""
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

    async def kept_files(self, draft: Draft, wanted: Mapping[str, bytes]) -> dict[str, KeptFile]:
        """By path, the stored files whose content hash is `wanted`; no more than were published once."""
        ...

    async def restore(self, draft: Draft, files: Sequence[KeptFile]) -> None:
        """Put stored files, with their chunks, vectors and words, into the draft. Up to 500 a transaction."""
        ...

    async def restore_tree(self, draft: Draft, tree: bytes) -> IndexStats | None:
        """Make the draft what the revision was that was published with `tree`: files, chunks and graph, in one
        transaction. Its counts; None when that tree is not kept, and then nothing is changed."""
        ...

    async def sibling(
        self, draft: Draft, sample: Mapping[str, bytes], facts_version: int
    ) -> Sibling | None:
        """The repository of the draft's tenant that publishes most of `sample`, content hashes by path, read by that
        version of the extractors; None when none publishes half of it."""
        ...

    async def sibling_files(
        self, sibling: Sibling, wanted: Mapping[str, bytes]
    ) -> dict[str, KeptFile]:
        """By path, the files of `sibling` whose content hash is `wanted`."""
        ...

    async def copy_files(
        self, draft: Draft, sibling: Sibling, files: Sequence[KeptFile]
    ) -> frozenset[str]:
        """Put copies of a sibling's files, with their chunks and words, into the draft, before anything else of it that
        has words. Their vectors come along, or by `VectorQueue.take_over`. The paths of those that were copied: not of
        what the sibling does not publish any more. One transaction."""
        ...

    async def copy_tree(self, draft: Draft, sibling: Sibling, tree: bytes) -> IndexStats | None:
        """As `restore_tree`, from a sibling that publishes `tree`: of a draft that is empty still."""
        ...

    async def publish(
        self, draft: Draft, stats: IndexStats, *, tree: bytes = b"", branch: str = ""
    ) -> Revision:
        """Show the draft to readers, and queue its projection to the graph: one transaction.

        `tree`: a digest of all that the draft was made from, by which a later draft may take it up whole while it is
        kept; b"" for none. `branch`: its name, of which the last tree is kept longest."""
        ...

    async def discard(self, draft: Draft) -> None:
        """Throw the draft away and release the lock. Nothing changed: no new revision."""
        ...
