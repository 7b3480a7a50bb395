"""What a server reads ahead: each published revision's graph once, the newest last, and it never gives up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from plait.domain.errors import StoreUnavailable
from plait.domain.values import Filter, Revision
from plait.ports import CodeGraph, View
from server.background_jobs import warm
from server.background_jobs.warm import Warmer
from tests.processes import LIMIT_S

START = datetime(2026, 11, 3, tzinfo=UTC)


def revision(name: str, number: int, hours: int) -> Revision:
    return Revision(
        1, name, number, published_at=START + timedelta(hours=hours) if number else None
    )


class Store:
    """Revisions by tenant; what was read."""

    def __init__(self, **revisions: list[Revision]) -> None:
        self.revisions = revisions
        self.read: list[tuple[str, str]] = []
        self.broken = 0
        self.enough = asyncio.Event()

    async def tenants(self) -> list[str]:
        if self.broken:
            self.broken -= 1
            raise StoreUnavailable("the database is away")
        return list(self.revisions)

    async def view(self, where: Filter) -> View:
        assert where.all_repos
        return View(tuple(self.revisions[where.tenant]), "", 0, where.tenant)

    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        assert wait_s > 0.0
        self.read.append((view.tenant, repo))
        self.enough.set()
        return None


async def test_every_published_revision_is_read_once_the_newest_last() -> None:
    store = Store(
        default=[revision("new", 3, 9), revision("old", 1, 1), revision("empty", 0, 0)],
        acme=[revision("acme@mid", 2, 5)],
    )
    warmer = Warmer(store, store, store)
    assert await warmer.read_new() == ["old", "acme@mid", "new"]
    assert store.read == [("default", "old"), ("acme", "acme@mid"), ("default", "new")]
    assert await warmer.read_new() == []
    store.revisions["default"][1] = revision("old", 2, 10)
    assert await warmer.read_new() == ["old"]


async def test_of_many_only_the_newest_are_read() -> None:
    store = Store(default=[revision(f"r{n}", 1, n) for n in range(warm.MOST + 5)])
    read = await Warmer(store, store, store).read_new()
    assert read == [f"r{n}" for n in range(5, warm.MOST + 5)]


async def test_a_fault_is_waited_out() -> None:
    store = Store(default=[revision("app", 1, 1)])
    store.broken = 2
    stop = asyncio.Event()
    running = asyncio.create_task(Warmer(store, store, store, every_s=0.001).run_forever(stop))
    await asyncio.wait_for(store.enough.wait(), LIMIT_S)
    stop.set()
    await asyncio.wait_for(running, LIMIT_S)
    assert store.read == [("default", "app")]
