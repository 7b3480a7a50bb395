"""Fill in the vectors of a published revision, most useful texts first. Safe to stop at any point."""

from __future__ import annotations

from etl.report import Progress
from plait.ports import EmbeddingProvider, VectorQueue

# Texts a round and a transaction, as of everything else that is written: large enough that sorting by
# length inside the provider pays, small enough that Ctrl-C or a kill loses seconds of work at most.
ROUND = 500


async def fill_vectors(
    queue: VectorQueue,
    provider: EmbeddingProvider,
    repo: str,
    progress: Progress,
    size: int = ROUND,
) -> tuple[int, int]:
    """Embed what `repo` lacks, `size` texts at a time; return its coverage `(embedded, all)`.

    Raises:
        EmbeddingModelMismatch: the index holds another model's vectors.
        EmbeddingUnavailable, EmbeddingRefused: from the provider; what was stored stays.
    """
    await queue.ensure_space(provider.model, provider.dim)
    embedded, total = await queue.coverage(repo)
    if embedded == total:
        return embedded, total
    progress.start("vectors", total)
    progress.advance(embedded)
    while batch := await queue.pending(repo, min(size, ROUND)):
        vectors = await provider.embed_documents([text.text for text in batch])
        await queue.store_vectors([text.content_hash for text in batch], vectors)
        now, total = await queue.coverage(repo)
        progress.advance(now - embedded)
        embedded = now
    await queue.finish(repo)
    return await queue.coverage(repo)
