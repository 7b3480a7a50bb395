"""The primary store: the queue of texts to embed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from plait.domain.values import ItemId
from plait.ports.embedding import Vectors


@dataclass(frozen=True, slots=True)
class PendingText:
    """A text that waits for its vector. Items with equal `content_hash` share one."""

    content_hash: bytes
    text: str


class VectorQueue(Protocol):
    async def ensure_space(self, model: str, dim: int) -> None:
        """Record the index's one model and dimension, or check them.

        Raises: EmbeddingModelMismatch.
        """
        ...

    async def pending(self, repo: str, limit: int) -> Sequence[PendingText]:
        """Texts of agents' items without a vector, oldest first, equal ones once; fewer than `limit` may be returned
        while more wait, none only when none does. It costs what it returns, whatever waits besides. `text` is the
        header line `path qualified.name` + newline + content."""
        ...

    async def waiting(
        self, repo: str, limit: int, called: Sequence[tuple[str, str]] = ()
    ) -> Sequence[ItemId]:
        """Chunks of the published revision without a vector, one of each text, at most `limit`: those of `called`,
        `(path, symbol)` as chunks have them, in that order; then code before tests before prose, each as it was
        written. It looks at every chunk of the revision: ask for many at a time, and for their `texts` batch by
        batch."""
        ...

    async def texts(self, repo: str, ids: Sequence[ItemId]) -> Sequence[PendingText]:
        """Those of `ids` that are chunks of the published revision and lack a vector still, in the order given, equal
        texts once; `text` as in `pending`. It costs what it is asked for, however large the repository."""
        ...

    async def take_over(self, ids: Sequence[ItemId]) -> None:
        """Give those of `ids` that lack a vector, and all chunks of the same texts, the one that an equal text has in
        any repository; one transaction."""
        ...

    async def store_vectors(self, hashes: Sequence[bytes], vectors: Vectors) -> None:
        """Give every chunk with one of `hashes` its vector; one transaction; safe to repeat."""
        ...

    async def index_agents(self) -> None:
        """Build what nearest-neighbour search needs over agents' items (HNSW) where they have become many and
        it is missing; writers go on meanwhile. Cheap where nothing is missing; safe to repeat, and to
        be killed in."""
        ...

    async def coverage(self, repo: str) -> tuple[int, int]:
        """`(embedded, all)` chunks of the published revision."""
        ...

    async def finish(self, repo: str) -> None:
        """Build or refresh what nearest-neighbour search needs after a load (HNSW, statistics)."""
        ...

    async def want(self, repo: str, wanted: bool) -> None:
        """Whether `repo` is to have vectors of its code, from now on. Raises: RepositoryNotIndexed."""
        ...

    async def wanting(self) -> Sequence[str]:
        """Repositories whose code is to have vectors and lacks some, the smallest rest first."""
        ...

    def filling(self, repo: str) -> AbstractAsyncContextManager[bool]:
        """Be the one process that fills in `repo`, for the length of the block; False: another is. The
        lock goes with the process, however it dies. Raises: RepositoryNotIndexed."""
        ...
