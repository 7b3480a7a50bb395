"""What is done to a whole repository while somebody writes to it: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from plait.domain.memory import MemoryEntry, MemoryWrite
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory.entry import NOBODY
from vector import episodes, memories_batch
from vector.store import Store


def episode(repo: str, n: int) -> Episode:
    said = [Artifact(ArtifactKind.NOTE, f"text {n}"), Artifact(ArtifactKind.PLAN, f"fixes #{n}")]
    return Episode(f"{repo}-{n}", repo, Outcome("success", "s"), said, body_hash=b"h")


async def graph_of(store: Store) -> set[str]:
    """What a graph holds once all that waits is projected."""
    held: set[str] = set()
    while (delta := await store.claim()) is not None:
        if delta.remove_repo:
            held.clear()
        held -= set(delta.drop_nodes)
        held |= {node.id for node in delta.nodes}
        await store.done(delta.event_id)
    return held


@asynccontextmanager
async def paused(monkeypatch: pytest.MonkeyPatch, module: Any) -> AsyncIterator[asyncio.Event]:
    """Writers stop when all is written and nothing committed, until the block ends; the event says
    that one is there."""
    written, go_on = asyncio.Event(), asyncio.Event()
    whole: Callable[..., Any] = module._write

    async def write(*given: Any) -> Any:
        done = await whole(*given)
        written.set()
        await go_on.wait()
        return done

    monkeypatch.setattr(module, "_write", write)
    yield written
    go_on.set()


async def test_a_graph_made_anew_has_the_episode_that_is_being_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append(episode("r", 1))
    await graph_of(store)
    async with paused(monkeypatch, episodes) as written:
        appending = asyncio.create_task(store.append(episode("r", 2)))
        await written.wait()
        resetting = asyncio.create_task(store.reset("r"))
        await asyncio.wait({resetting}, timeout=0.3)
    receipt, _ = await asyncio.gather(appending, resetting)
    held = await graph_of(store)
    assert f"r:episode/{receipt.episode_id}" in held
    assert held == set((await store.expected("r")).nodes)


async def test_a_graph_made_anew_has_the_memory_that_is_being_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append(episode("r", 1))
    await graph_of(store)
    entry = MemoryEntry(NOBODY, "r", "a", "the queue is a list")
    async with paused(monkeypatch, memories_batch) as written:
        storing = asyncio.create_task(store.store("default", [MemoryWrite(entry, "m", b"h")]))
        await written.wait()
        resetting = asyncio.create_task(store.reset("r"))
        await asyncio.wait({resetting}, timeout=0.3)
    await asyncio.gather(storing, resetting)
    assert await graph_of(store) == set((await store.expected("r")).nodes)


async def test_what_is_stored_while_its_repository_is_deleted_is_there_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.append(episode("r", 7))
    await graph_of(store)
    async with paused(monkeypatch, episodes) as written:
        # The same issue as before: its node is there already.
        again = Episode("again", "r", Outcome("success"), [Artifact(ArtifactKind.PLAN, "fixes #7")])
        appending = asyncio.create_task(store.append(again))
        await written.wait()
        deleting = asyncio.create_task(store.delete_repository("r"))
        await asyncio.wait({deleting}, timeout=0.3)
    await asyncio.gather(appending, deleting)
    held = await graph_of(store)
    assert held == set((await store.expected("r")).nodes)
    # Stored before the deletion ended, so it went with the rest.
    assert held == set()
