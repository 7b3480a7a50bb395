"""The truth store over an embedded server that dies under it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from etl.truth import open as open_truth
from plait.domain.errors import StoreFull
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.settings import load
from vector.connection.pool import Database
from vector.server import embedded

IndexFiles = Callable[..., Awaitable[Any]]


async def test_a_killed_server_comes_back_with_all_that_was_published(
    fresh_home: Path, index: IndexFiles
) -> None:
    settings = load(environ={"PLAIT_HOME": str(fresh_home)})
    store = await open_truth(settings)
    try:
        await index(store, "r", {"a.toy": ["alpha:"]})
        with await asyncio.to_thread(embedded.ensure, settings) as lease:
            os.kill(lease.pid, signal.SIGKILL)
            view = await store.search.view(Filter())
            assert len(await store.search.lexical(view, ["alpha"], Filter(), 5)) == 1
        await index(store, "r", {"a.toy": ["alpha:", "beta: alpha"]})
        note = Artifact(ArtifactKind.NOTE, "died once")
        await store.episodes.append(Episode("q", "r", Outcome("success"), [note], body_hash=b"h"))
        where = Filter(collections=(Collection.FILES, Collection.MEMORIES))
        view = await store.search.view(where)
        assert len(await store.search.lexical(view, ["alpha", "died"], where, 5)) == 3
    finally:
        await store.close()


async def test_a_server_that_is_gone_for_good_is_blamed_by_its_own_words(tmp_path: Path) -> None:
    """The pool only knows that nothing connects; the keeper knows that the disk is full."""

    def revive() -> str:
        raise StoreFull("no space is left", path=tmp_path)

    settings = load(environ={"PLAIT_POSTGRES__CONNECT_TIMEOUT_S": "0.5"})
    db = Database(f"host={tmp_path} dbname=postgres", settings, revive=revive)
    await db._pool.open(wait=False)
    try:
        with pytest.raises(StoreFull, match="no space is left"):
            await db.rows("SELECT 1", {})
        with pytest.raises(StoreFull, match="no space is left"):
            await db.connection().__aenter__()
    finally:
        await db.close()
