"""Fill in the vectors of a published revision, most useful texts first. Safe to stop at any point."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from etl.report import Progress
from plait.domain.values import ItemId
from plait.ports import EmbeddingProvider, PendingText, VectorQueue

if TYPE_CHECKING:
    from plait.settings import EmbeddingSettings

# Texts a round and a transaction, as of everything else that is written: large enough that sorting by
# length inside the provider pays, small enough that Ctrl-C or a kill loses seconds of work at most.
ROUND = 500
# Chunks whose order is made at once, from a look at all that wait: 1.3 MB of ids.
PLAN = 20_000
# Between two looks at what another process does.
LOOK_S = 0.5


class CodeOrder(Protocol):
    """Which code of a repository is wanted first. All of it may be empty: the rest of the order holds."""

    def touched(self, repo: str, most: int) -> Sequence[ItemId]:
        """Chunks that searches lately came upon, the latest first; with or without a vector."""
        ...

    def done(self, repo: str, ids: Sequence[ItemId]) -> None:
        """`ids` have their vector, or need none any more."""
        ...

    async def called(self, repo: str) -> Sequence[tuple[str, str]]:
        """`(path, symbol)` of what most code calls, the most called first."""
        ...


async def check_model(queue: VectorQueue, settings: EmbeddingSettings) -> None:
    """Before work whose vectors are made later: a wrong model is a setting to mend. The shipped one is known
    without being loaded.

    Raises: EmbeddingModelMismatch; for other models as `plait.models.embedding.open`.
    """
    import plait.models.embedding

    known = plait.models.embedding.identity(settings)
    if known is None:
        provider = await plait.models.embedding.open(settings)
        known = provider.model, provider.dim
        await provider.close()
    await queue.ensure_space(*known)


async def fill_vectors(
    queue: VectorQueue,
    provider: EmbeddingProvider,
    repo: str,
    progress: Progress,
    size: int = ROUND,
    order: CodeOrder | None = None,
) -> tuple[int, int]:
    """Embed what `repo` lacks, `size` texts at a time; return its coverage `(embedded, all)`. Another process
    that is at it is waited for, and continued where it ends or fails. Agents' items come first, then code: what is
    `touched` meanwhile, what is `called` most, the rest; without `order`, as where everybody waits for all, the rest.

    Raises:
        EmbeddingModelMismatch: the index holds another model's vectors.
        EmbeddingUnavailable, EmbeddingRefused: from the provider; what was stored stays.
        RepositoryNotIndexed: it was removed meanwhile.
    """
    await queue.ensure_space(provider.model, provider.dim)
    embedded, total = await queue.coverage(repo)
    if embedded == total:
        return embedded, total
    progress.start("vectors", total)
    progress.advance(embedded)
    while embedded < total:
        async with queue.filling(repo) as mine:
            if mine:
                batches = _Batches(queue, repo, min(size, ROUND), order)
                return await _fill(queue, provider, batches, progress, embedded)
        await asyncio.sleep(LOOK_S)
        now, total = await queue.coverage(repo)
        progress.advance(now - embedded)
        embedded = now
    return embedded, total


class _Batches:
    """The texts of one run, `size` at a time. The order of code is made for `PLAN` chunks, so that a batch costs the
    same in a repository of any size."""

    def __init__(self, queue: VectorQueue, repo: str, size: int, order: CodeOrder | None) -> None:
        self.repo = repo
        self._queue = queue
        self._size = size
        self._order = order
        self._plan: deque[ItemId] = deque()
        self._asked: list[ItemId] = []

    async def following(self) -> Sequence[PendingText] | None:
        """The next ones, none where all that was looked at has its vector or is gone; None when nothing waits."""
        if found := await self._queue.pending(self.repo, self._size):
            self._asked = []
            return found
        if not self._plan:
            called = await self._order.called(self.repo) if self._order else ()
            self._plan.extend(await self._queue.waiting(self.repo, PLAN, called))
            if not self._plan:
                return None
        self._asked = list(self._order.touched(self.repo, self._size)) if self._order else []
        while self._plan and len(self._asked) < self._size:
            self._asked.append(self._plan.popleft())
        await self._queue.take_over(self._asked)
        return await self._queue.texts(self.repo, self._asked)

    def done(self) -> None:
        """What was given out last is stored, or was already."""
        if self._order:
            self._order.done(self.repo, self._asked)


async def _fill(
    queue: VectorQueue,
    provider: EmbeddingProvider,
    batches: _Batches,
    progress: Progress,
    embedded: int,
) -> tuple[int, int]:
    repo = batches.repo
    while (batch := await batches.following()) is not None:
        if batch:
            vectors = await provider.embed_documents([text.text for text in batch])
            await queue.store_vectors([text.content_hash for text in batch], vectors)
        batches.done()
        now, _ = await queue.coverage(repo)
        progress.advance(now - embedded)
        embedded = now
    await queue.finish(repo)
    return await queue.coverage(repo)
