"""Hot queries: least recently used, for ten minutes, one flight for concurrent equal ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from plait.domain.errors import EmbeddingUnavailable
from plait.models.embedding.cache import CachedProvider, Vector
from plait.ports import Vectors


class Slow:
    """An `EmbeddingProvider` that counts, and waits for `gate`."""

    model, dim = "slow", 2

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fail = False
        self.closed = False

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return np.zeros((len(texts), 2), np.float32)

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        await self.gate.wait()
        if self.fail:
            raise EmbeddingUnavailable("down")
        return np.array([1.0, len(self.asked)], np.float32)

    async def close(self) -> None:
        self.closed = True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_hot_query_is_asked_once_in_ten_minutes() -> None:
    inner, clock = Slow(), Clock()
    cached = CachedProvider(inner, size=10, ttl_s=600, clock=clock)
    first = await cached.embed_query("a")
    clock.now = 599.0
    assert await cached.embed_query("a") is first
    clock.now = 600.1
    assert await cached.embed_query("a") is not first
    assert inner.asked == ["a", "a"]


async def test_the_least_recently_used_query_goes_first() -> None:
    inner = Slow()
    cached = CachedProvider(inner, size=2, ttl_s=600, clock=Clock())
    for text in ("a", "b", "a", "c", "a", "b"):
        await cached.embed_query(text)
    assert inner.asked == ["a", "b", "c", "b"]


async def test_concurrent_equal_queries_share_one_flight() -> None:
    inner = Slow()
    inner.gate.clear()
    cached = CachedProvider(inner, size=10, ttl_s=600)
    waiting = [asyncio.create_task(cached.embed_query("a")) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    inner.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError), "one gives up, the others get theirs"
    assert all(answer is answers[1] for answer in answers[1:])
    assert inner.asked == ["a"]


async def test_an_error_reaches_every_waiter_and_is_not_remembered() -> None:
    inner = Slow()
    inner.fail = True
    cached = CachedProvider(inner, size=10, ttl_s=600)
    errors = await asyncio.gather(
        *(cached.embed_query("a") for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(error, EmbeddingUnavailable) for error in errors)
    inner.fail = False
    assert (await cached.embed_query("a")).shape == (2,)
    assert inner.asked == ["a", "a"]


async def test_shared_vectors_are_read_only() -> None:
    cached = CachedProvider(Slow(), size=10, ttl_s=600)
    vector = await cached.embed_query("a")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 5.0


async def test_close_ends_flights_and_closes_the_provider() -> None:
    inner = Slow()
    inner.gate.clear()
    cached = CachedProvider(inner, size=10, ttl_s=600)
    waiting = asyncio.create_task(cached.embed_query("a"))
    await asyncio.sleep(0)
    await cached.close()
    assert inner.closed
    with pytest.raises(asyncio.CancelledError):
        await waiting
