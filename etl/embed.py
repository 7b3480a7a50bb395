"""Fill in the vectors of a published revision, most useful texts first. Safe to stop at any point."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from etl.report import Progress
from plait.ports import EmbeddingProvider, VectorQueue

if TYPE_CHECKING:
    from plait.settings import EmbeddingSettings

# Texts a round and a transaction, as of everything else that is written: large enough that sorting by
# length inside the provider pays, small enough that Ctrl-C or a kill loses seconds of work at most.
ROUND = 500
# Between two looks at what another process does.
LOOK_S = 0.5


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
) -> tuple[int, int]:
    """Embed what `repo` lacks, `size` texts at a time; return its coverage `(embedded, all)`. Another process
    that is at it is waited for, and continued where it ends or fails.

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
                return await _fill(queue, provider, repo, progress, size, embedded)
        await asyncio.sleep(LOOK_S)
        now, total = await queue.coverage(repo)
        progress.advance(now - embedded)
        embedded = now
    return embedded, total


async def _fill(
    queue: VectorQueue,
    provider: EmbeddingProvider,
    repo: str,
    progress: Progress,
    size: int,
    embedded: int,
) -> tuple[int, int]:
    while batch := await queue.pending(repo, min(size, ROUND)):
        vectors = await provider.embed_documents([text.text for text in batch])
        await queue.store_vectors([text.content_hash for text in batch], vectors)
        now, _ = await queue.coverage(repo)
        progress.advance(now - embedded)
        embedded = now
    await queue.finish(repo)
    return await queue.coverage(repo)
