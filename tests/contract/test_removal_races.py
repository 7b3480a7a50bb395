"""Rebuilding, deleting and forgetting while somebody writes: nothing is lost, and nothing comes back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest

from plait.domain.memory import NO_ID, MemoryEntry, MemoryFilter, MemoryReceipt, MemoryWrite
from plait.domain.retention import Action, CompactionPlan, Selector, Step
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from tests.processes import LIMIT_S
from vector.connection import clock
from vector.connection.pool import Connection
from vector.episodes import links
from vector.episodes import store as episodes
from vector.memories import batch
from vector.store import Store


def episode(repo: str, n: int) -> Episode:
    said = [Artifact(ArtifactKind.NOTE, f"text {n}"), Artifact(ArtifactKind.PLAN, f"fixes #{n}")]
    return Episode(f"{repo}-{n}", repo, Outcome("success", "s"), said, body_hash=b"h")


async def rows(dsn: str, query: LiteralString) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        return await (await conn.execute(query)).fetchall()


async def graph_of(store: Store) -> set[str]:
    """What a graph holds once all that waits is projected."""
    held: set[str] = set()
    while (delta := await store.outbox.claim()) is not None:
        if delta.remove_repo:
            held.clear()
        held -= set(delta.drop_nodes)
        held |= {node.id for node in delta.nodes}
        await store.outbox.done(delta.event_id)
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
    await store.episodes.append(episode("r", 1))
    await graph_of(store)
    async with paused(monkeypatch, episodes) as written:
        appending = asyncio.create_task(store.episodes.append(episode("r", 2)))
        await written.wait()
        resetting = asyncio.create_task(store.outbox.reset("r"))
        await asyncio.wait({resetting}, timeout=0.3)
    receipt, _ = await asyncio.gather(appending, resetting)
    held = await graph_of(store)
    assert f"r:episode/{receipt.episode_id}" in held
    assert held == set((await store.outbox.expected("r")).nodes)


async def test_a_graph_made_anew_has_the_memory_that_is_being_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.episodes.append(episode("r", 1))
    await graph_of(store)
    entry = MemoryEntry(NO_ID, "r", "a", "the queue is a list")
    async with paused(monkeypatch, batch) as written:
        storing = asyncio.create_task(
            store.memories.store("default", [MemoryWrite(entry, "m", b"h")])
        )
        await written.wait()
        resetting = asyncio.create_task(store.outbox.reset("r"))
        await asyncio.wait({resetting}, timeout=0.3)
    await asyncio.gather(storing, resetting)
    assert await graph_of(store) == set((await store.outbox.expected("r")).nodes)


async def test_what_is_stored_while_its_repository_is_deleted_is_there_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.episodes.append(episode("r", 7))
    await graph_of(store)
    async with paused(monkeypatch, episodes) as written:
        # The same issue as before: its node is there already.
        again = Episode("again", "r", Outcome("success"), [Artifact(ArtifactKind.PLAN, "fixes #7")])
        appending = asyncio.create_task(store.episodes.append(again))
        await written.wait()
        deleting = asyncio.create_task(store.repositories.delete("r"))
        await asyncio.wait({deleting}, timeout=0.3)
    await asyncio.gather(appending, deleting)
    held = await graph_of(store)
    assert held == set((await store.outbox.expected("r")).nodes)
    # Stored before the deletion ended, so it went with the rest.
    assert held == set()


DIFF = "--- a/a.toy\n+++ b/a.toy\n@@ -1 +1 @@\n-alpha:\n+alpha: beta\n"


def ran(status: str) -> Artifact:
    tests = [{"name": "test_a.test_x", "status": status}]
    return Artifact(ArtifactKind.TEST_RESULT, "ran", meta={"tests": tests})


async def test_a_diff_that_is_forgotten_while_it_is_settled_leaves_nothing(
    store: Store,
    index: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    truth_dsn: str,
) -> None:
    caplog.set_level(logging.INFO)
    await index(store, "r", {"test_a.toy": ["test_x:"], "a.toy": ["alpha:"]})
    start = datetime(2026, 3, 1, tzinfo=UTC)
    runs: list[tuple[Artifact, str]] = [
        (ran("failed"), "#12"), (Artifact(ArtifactKind.DIFF, DIFF), ""), (ran("passed"), ""),
    ]  # fmt: skip
    receipts = []
    for n, (said, summary) in enumerate(runs):
        await graph_of(store)
        told = Episode(
            f"e{n}", "r", Outcome("success", summary), [said], "agent",
            body_hash=b"h", started_at=start + timedelta(days=n),
        )  # fmt: skip
        receipts.append(await store.episodes.append(told))
    async with await psycopg.AsyncConnection.connect(truth_dsn, autocommit=True) as conn:
        await conn.execute("UPDATE plait.test_result SET test = 'test_a.test_x'")
    settled, go_on = asyncio.Event(), asyncio.Event()
    ticks = clock.tick

    async def tick(conn: Connection, repo_id: int) -> datetime:
        settled.set()
        await go_on.wait()
        return await ticks(conn, repo_id)

    monkeypatch.setattr(links, "tick", tick)
    claiming = asyncio.create_task(store.outbox.claim())
    await asyncio.wait_for(settled.wait(), LIMIT_S)
    _, gone, owner = (r.episode_id for r in receipts)
    forgotten = [
        asyncio.create_task(
            store.forgetting.forget("default", "r", Selector(ids=(id_,)), dry_run=False)
        )
        for id_ in (gone, receipts[0].episode_id)
    ]
    await asyncio.wait(forgotten, timeout=LIMIT_S)
    assert all(task.done() for task in forgotten), "forgetting waits for the projector"
    go_on.set()
    delta = await claiming
    assert delta is not None
    await store.outbox.done(delta.event_id)
    item = receipts[1].item_ids[0]
    assert not [
        end for link in delta.links for end in (link.source, link.target) if str(item) in end
    ]
    await graph_of(store)
    edges = await rows(
        truth_dsn, "SELECT source, relation FROM plait.memory_edge WHERE recorded_to IS NULL"
    )
    assert edges == [(f"episode/{owner}", "VALIDATED_BY")]
    everything = await rows(truth_dsn, "SELECT source || target FROM plait.memory_edge")
    assert not [text for (text,) in everything if str(item) in text or "issue/12" in text]
    assert "trying a transaction again" not in caplog.text


@pytest.fixture
def lost_answers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction of the owner is committed, its answer is lost, and it is tried again."""

    async def retry(attempt: Callable[[int], Any]) -> Any:
        await attempt(1)
        return await attempt(2)

    monkeypatch.setattr(store.db, "retry", retry)


@pytest.mark.usefixtures("lost_answers")
async def test_what_was_forgotten_is_told_though_the_answer_was_lost(store: Store) -> None:
    receipt = await store.episodes.append(episode("r", 1))
    told = await store.forgetting.forget(
        "default", "r", Selector(ids=(receipt.episode_id,)), dry_run=False
    )
    assert told.episodes == (receipt.episode_id,)
    assert (told.removed["episode"], sum(told.left.values())) == (1, 0)
    assert told.event_id > 0


@pytest.mark.usefixtures("lost_answers")
async def test_a_compaction_is_done_once_though_its_answer_was_lost(store: Store) -> None:
    writes = [MemoryWrite(MemoryEntry(NO_ID, "r", "a", f"x {n}"), f"m{n}", b"h") for n in (1, 2)]
    first, second = await store.memories.store("default", writes)
    assert isinstance(first, MemoryReceipt)
    assert isinstance(second, MemoryReceipt)
    step = Step(
        Action.DEDUPLICATE, second.entry.id, "said before", first.entry.id, 5, second.entry.version
    )
    plan = CompactionPlan("r", "a", (step,), (), 2, 10, 5, 100, ())
    done = await store.retention.compact("default", plan, 60.0)
    assert [s.entry_id for s in done.plan.closed] == [second.entry.id]
    assert len((await store.memories.list(MemoryFilter(repos=("r",)), limit=9)).entries) == 1
