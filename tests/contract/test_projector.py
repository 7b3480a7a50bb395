"""The projector over a real truth store: what it does when the graph can't take a difference."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from etl.project import Projector
from plait.domain.errors import StoreUnavailable
from plait.ports import GraphDelta, GraphStore
from vector.connection import locks
from vector.connection.pool import Connection
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]


class Stubborn:
    """A graph that takes whole projections, and no differences."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.taken: list[GraphDelta] = []

    async def apply(self, delta: GraphDelta) -> None:
        if not delta.fresh and not delta.remove_repo:
            raise self.error
        self.taken.append(delta)


def projector(store: Store, graph: Stubborn) -> Projector:
    async def opened() -> GraphStore:
        return cast(GraphStore, graph)

    return Projector(store.outbox, opened)


async def test_a_difference_that_the_graph_cannot_take_is_projected_anew(
    store: Store, index: IndexFiles
) -> None:
    graph = Stubborn(RuntimeError("record not found"))
    await index(store, "again", {"a.toy": ["alpha: beta", "beta:"]})
    await projector(store, graph).run_until_idle()
    revision = await index(store, "again", {"a.toy": ["alpha:", "beta:"]})
    await projector(store, graph).run_until_idle()
    assert (await store.repositories.revision("again")).graph_number == revision.number
    assert graph.taken[-1].fresh
    assert await store.outbox.waiting() == 0


async def test_a_graph_that_is_away_is_waited_for(store: Store, index: IndexFiles) -> None:
    graph = Stubborn(StoreUnavailable("away"))
    await index(store, "wait", {"a.toy": ["alpha: beta", "beta:"]})
    await projector(store, graph).run_until_idle()
    await index(store, "wait", {"a.toy": ["alpha:", "beta:"]})
    with pytest.raises(StoreUnavailable):
        await projector(store, graph).run_until_idle()
    assert (await store.repositories.revision("wait")).graph_number == 1
    assert await store.outbox.waiting() == 1


async def test_what_a_cancelled_run_was_at_is_anybodys_again(
    store: Store, other: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for a projection, a comparison say, has a deadline."""
    graph, at_it = Stubborn(StoreUnavailable("away")), asyncio.Event()

    async def held(delta: GraphDelta) -> None:
        at_it.set()
        await asyncio.Event().wait()

    await index(store, "left", {"a.toy": ["alpha: beta", "beta:"]})
    with monkeypatch.context() as patch:
        patch.setattr(graph, "apply", held)
        run = asyncio.ensure_future(projector(store, graph).run_until_idle())
        await at_it.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    await projector(other, graph).run_until_idle()
    assert [delta.repo for delta in graph.taken] == ["left"]
    await store.outbox.reset("left")
    await projector(store, graph).run_until_idle()
    assert await store.outbox.waiting() == 0


async def test_a_claim_cancelled_as_it_is_given_is_not_kept(
    store: Store, other: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Stubborn(StoreUnavailable("away"))
    try_lock, given = locks.try_lock, asyncio.Event()

    async def slow(conn: Connection, space: int, repo_id: int) -> bool:
        taken = await try_lock(conn, space, repo_id)
        given.set()
        await asyncio.Event().wait()
        return taken

    await index(store, "given", {"a.toy": ["alpha: beta", "beta:"]})
    with monkeypatch.context() as patch:
        patch.setattr(locks, "try_lock", slow)
        claiming = asyncio.ensure_future(store.outbox.claim())
        await given.wait()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
    await projector(other, graph).run_until_idle()
    assert [delta.repo for delta in graph.taken] == ["given"]
