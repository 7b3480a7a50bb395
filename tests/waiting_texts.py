"""What waits for a vector in a store, for tests to fill in."""

from __future__ import annotations

from collections.abc import Sequence

from plait.ports import PendingText
from vector.store import Store


async def waiting_texts(store: Store, repo: str, limit: int) -> Sequence[PendingText]:
    """As `fill_vectors` takes them: agents' items, then code; at most `limit` of each."""
    code = await store.vectors.texts(repo, await store.vectors.waiting(repo, limit))
    return [*await store.vectors.pending(repo, limit), *code]
