"""The truth store over an embedded server that dies under it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import vector
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.settings import load
from vector import embedded

IndexFiles = Callable[..., Awaitable[Any]]


async def test_a_killed_server_comes_back_with_all_that_was_published(
    fresh_home: Path, index: IndexFiles
) -> None:
    settings = load(environ={"PLAIT_HOME": str(fresh_home)})
    store = await vector.open(settings)
    try:
        await index(store, "r", {"a.toy": ["alpha:"]})
        with await asyncio.to_thread(embedded.ensure, settings) as lease:
            os.kill(lease.pid, signal.SIGKILL)
            view = await store.view(Filter())
            assert len(await store.lexical(view, ["alpha"], Filter(), 5)) == 1
        await index(store, "r", {"a.toy": ["alpha:", "beta: alpha"]})
        note = Artifact(ArtifactKind.NOTE, "died once")
        await store.append(Episode("q", "r", Outcome("success"), [note], body_hash=b"h"))
        where = Filter(collections=(Collection.FILES, Collection.MEMORIES))
        view = await store.view(where)
        assert len(await store.lexical(view, ["alpha", "died"], where, 5)) == 3
    finally:
        await store.close()
