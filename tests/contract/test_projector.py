"""The projector over a real truth store: what it does when the graph can't take a difference."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from etl.project import Projector
from plait.domain.errors import StoreUnavailable
from plait.ports import GraphDelta, GraphStore
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

    return Projector(store, opened)


async def test_a_difference_that_the_graph_cannot_take_is_projected_anew(
    store: Store, index: IndexFiles
) -> None:
    graph = Stubborn(RuntimeError("record not found"))
    await index(store, "again", {"a.toy": ["alpha: beta", "beta:"]})
    await projector(store, graph).run_until_idle()
    revision = await index(store, "again", {"a.toy": ["alpha:", "beta:"]})
    await projector(store, graph).run_until_idle()
    assert (await store.revision("again")).graph_number == revision.number
    assert graph.taken[-1].fresh
    assert await store.waiting() == 0


async def test_a_graph_that_is_away_is_waited_for(store: Store, index: IndexFiles) -> None:
    graph = Stubborn(StoreUnavailable("away"))
    await index(store, "wait", {"a.toy": ["alpha: beta", "beta:"]})
    await projector(store, graph).run_until_idle()
    await index(store, "wait", {"a.toy": ["alpha:", "beta:"]})
    with pytest.raises(StoreUnavailable):
        await projector(store, graph).run_until_idle()
    assert (await store.revision("wait")).graph_number == 1
    assert await store.waiting() == 1
