"""An answer as of a recorded time stays what it was, whoever was writing when it was given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from plait.domain.memory import (
    NO_ID,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryWrite,
)
from tests.memory_queries import query
from vector.memories import batch
from vector.store import Store

WHERE = MemoryFilter(repos=("r",))


def write(n: int) -> MemoryWrite:
    return MemoryWrite(MemoryEntry(NO_ID, "r", "a", f"the queue has {n} places"), f"m{n}", b"h")


async def seen(store: Store, way: str, at: datetime) -> int:
    as_of = AsOf(recorded=at)
    if way == "list":
        return len((await store.memories.list(WHERE, limit=10, as_of=as_of)).entries)
    options = MemoryQueryOptions(filter=WHERE, top_k=10, as_of=as_of)
    return len(await query(store, "queue places", None, options))


@pytest.mark.parametrize("way", ["list", "query"])
async def test_what_is_being_written_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    await store.memories.store("default", [write(1)])
    written, go_on = asyncio.Event(), asyncio.Event()
    whole: Callable[..., Awaitable[Any]] = batch._write

    async def slow(*given: Any) -> Any:
        await whole(*given)
        written.set()
        await go_on.wait()

    monkeypatch.setattr(batch, "_write", slow)
    storing = asyncio.create_task(store.memories.store("default", [write(2)]))
    await written.wait()
    at = datetime.now(UTC)
    reading = asyncio.create_task(seen(store, way, at))
    await asyncio.wait({reading}, timeout=0.3)
    go_on.set()
    (receipt,) = await storing
    assert isinstance(receipt, MemoryReceipt)
    updated = receipt.entry.updated_at
    assert updated is not None
    assert updated <= at
    assert await reading == await seen(store, way, at) == 2


async def test_a_clock_that_goes_back_changes_no_answer(store: Store, truth_dsn: str) -> None:
    await store.memories.store("default", [write(1)])
    at = datetime.now(UTC)
    assert await seen(store, "list", at) == 1
    async with await psycopg.AsyncConnection.connect(truth_dsn, autocommit=True) as conn:
        cursor = await conn.execute("SELECT at FROM plait.repo_clock")
        assert await cursor.fetchone() == (at,)
    # A time to come is not taken for the clock's.
    assert await seen(store, "list", at + timedelta(days=400)) == 1
    (receipt,) = await store.memories.store("default", [write(2)])
    assert isinstance(receipt, MemoryReceipt)
    assert receipt.entry.updated_at is not None
    assert at < receipt.entry.updated_at < at + timedelta(days=1)
    assert await seen(store, "list", at) == 1
