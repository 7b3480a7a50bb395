"""Hot queries: an LRU with a time to live, and one flight for concurrent equal queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from cachetools import TTLCache

from plait.ports import EmbeddingProvider, Vectors

Vector = npt.NDArray[np.float32]


class CachedProvider:
    """An `EmbeddingProvider` that remembers `size` queries for `ttl_s` seconds. Documents pass through.

    Equal queries that arrive while the first is under way wait for it; an error reaches all of them
    and is not remembered. Vectors are handed out read-only, since callers share them.
    """

    def __init__(
        self,
        inner: EmbeddingProvider,
        *,
        size: int,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._cache: TTLCache[str, Vector] = TTLCache(maxsize=size, ttl=ttl_s, timer=clock)
        self._flights: dict[str, asyncio.Task[Vector]] = {}

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dim(self) -> int:
        return self._inner.dim

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return await self._inner.embed_documents(texts)

    async def embed_query(self, text: str) -> Vector:
        known = self._cache.get(text)
        if known is not None:
            return known
        # Shielded: one caller that gives up must not take the answer from the others.
        return await asyncio.shield(self._flight(text))

    def begin(self, text: str) -> None:
        """Embed `text` in the background for its next caller."""
        if text not in self._cache:
            self._flight(text)

    def _flight(self, text: str) -> asyncio.Task[Vector]:
        flight = self._flights.get(text)
        if flight is None:
            flight = asyncio.create_task(self._ask(text))
            self._flights[text] = flight
            flight.add_done_callback(lambda done: self._landed(text, done))
        return flight

    async def _ask(self, text: str) -> Vector:
        vector = await self._inner.embed_query(text)
        vector.setflags(write=False)
        self._cache[text] = vector
        return vector

    def _landed(self, text: str, flight: asyncio.Task[Vector]) -> None:
        if self._flights.get(text) is flight:
            del self._flights[text]
        if not flight.cancelled():
            flight.exception()  # retrieved here: no caller may be left to do it

    def clear(self) -> None:
        """Clear the cache: a queried text may have to be forgotten."""
        self._cache.clear()

    async def close(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._inner.close()
