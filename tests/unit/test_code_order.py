"""Which code is embedded first, and how batches are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest

from etl import embed
from etl.report import NoProgress
from plait.domain.errors import EmbeddingUnavailable
from plait.domain.values import Filter, ItemId, Revision
from plait.ports import CodeGraph, PendingText, Vectors, View
from plait.retrieval.code_graph.called import most_called
from server.background_jobs import code_order
from server.background_jobs.code_order import CodeOrder
from tests.unit.code_graphs import graph

CALLS = [
    ("CALLS", "a.one", "a.much"),
    ("CALLS", "a.two", "a.much"),
    ("CALLS", "test_a.test", "a.some"),
    ("CALLS", "a.own", "a.own"),
    ("IMPORTS", "a.one", "a.own"),
]


def n(*numbers: int) -> list[ItemId]:
    return [ItemId(UUID(int=number)) for number in numbers]


def test_what_most_call_comes_first_and_what_nobody_calls_not_at_all() -> None:
    assert most_called(graph(CALLS), 9) == [("a.py", "a.much"), ("a.py", "a.some")]
    assert most_called(graph(CALLS), 1) == [("a.py", "a.much")]
    assert most_called(graph([]), 9) == []


class Graphs:
    """A repository's view, and its graph or none."""

    def __init__(self, found: CodeGraph | None = None) -> None:
        self.found = found
        self.asked: list[tuple[str, str]] = []

    async def view(self, where: Filter) -> View:
        self.asked += [(where.tenant, repo) for repo in where.repos]
        return View(tuple(Revision(1, repo, 1) for repo in where.repos), "", 0, where.tenant)

    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        assert wait_s > 0.0
        return self.found


async def test_each_tenant_s_graph_is_asked_as_its_own() -> None:
    graphs = Graphs(graph(CALLS))
    order = CodeOrder(graphs, graphs)
    assert (await order.called("r"))[0] == ("a.py", "a.much")
    assert await order.called("acme@r")
    assert graphs.asked == [("default", "r"), ("acme", "acme@r")]
    graphs.found = None
    assert await order.called("r") == []


def test_the_latest_is_first_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_order, "MOST", 4)
    monkeypatch.setattr(code_order, "REPOSITORIES", 2)
    order = CodeOrder(Graphs(), Graphs())
    order.touch("r", n(1, 2, 3))
    order.touch("r", n(4, 2))
    assert order.touched("r", 9) == n(4, 2, 1, 3)
    order.touch("r", n(5))
    assert order.touched("r", 9) == n(5, 4, 2, 1)
    assert order.touched("r", 2) == n(5, 4)
    order.done("r", n(4, 9))
    assert order.touched("r", 9) == n(5, 2, 1)
    order.touch("s", n(6))
    order.touch("r", n(7))
    order.touch("t", n(8))
    assert [order.touched(repo, 9) for repo in "rst"] == [n(7, 5, 2, 1), [], n(8)]
    order.done("t", n(8))
    order.done("unknown", n(8))
    assert order.touched("t", 9) == []


class Queue:
    """A `VectorQueue` of chunks 1 to `count`; what it was asked."""

    def __init__(self, count: int) -> None:
        self.lacking = n(*range(1, count + 1))
        self.total = count
        self.asked: list[list[int]] = []
        self.plans: list[list[tuple[str, str]]] = []

    async def ensure_space(self, model: str, dim: int) -> None: ...

    async def coverage(self, repo: str) -> tuple[int, int]:
        return self.total - len(self.lacking), self.total

    def filling(self, repo: str) -> Mine:
        return Mine()

    async def pending(self, repo: str, limit: int) -> Sequence[PendingText]:
        return []

    async def waiting(
        self, repo: str, limit: int, called: Sequence[tuple[str, str]] = ()
    ) -> Sequence[ItemId]:
        self.plans.append(list(called))
        return self.lacking[:limit]

    async def texts(self, repo: str, ids: Sequence[ItemId]) -> Sequence[PendingText]:
        self.asked.append([id_.int for id_ in ids])
        return [PendingText(i.bytes, "") for i in dict.fromkeys(ids) if i in self.lacking]

    async def take_over(self, ids: Sequence[ItemId]) -> None: ...

    async def store_vectors(self, hashes: Sequence[bytes], vectors: Vectors) -> None:
        self.lacking = [id_ for id_ in self.lacking if id_.bytes not in set(hashes)]

    async def finish(self, repo: str) -> None: ...


class Mine:
    async def __aenter__(self) -> bool:
        return True

    async def __aexit__(self, *_: object) -> None: ...


class Model:
    model, dim = "m", 2

    def __init__(self) -> None:
        self.fails_at = 0
        self.calls = 0

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        if self.calls == self.fails_at:
            raise EmbeddingUnavailable("down")
        return np.ones((len(texts), 2), np.float32)


async def fill(queue: Queue, model: Model, order: CodeOrder | None, size: int = 2) -> None:
    await embed.fill_vectors(queue, model, "r", NoProgress(), size, order)  # type: ignore[arg-type]


async def test_an_order_is_made_for_many_batches_and_what_was_touched_comes_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embed, "PLAN", 4)
    queue, order = Queue(7), CodeOrder(Graphs(graph(CALLS)), Graphs(graph(CALLS)))
    order.touch("r", n(6, 90, 91, 92))
    await fill(queue, Model(), order)
    # 90 to 92 are other revisions': they cost a look, and are asked for once.
    assert queue.asked == [[6, 90], [91, 92], [1, 2], [3, 4], [5, 7]]
    assert len(queue.plans) == 3
    assert queue.plans[0][0] == ("a.py", "a.much")
    assert not queue.lacking


async def test_without_an_order_all_comes_as_it_waits() -> None:
    queue = Queue(3)
    await fill(queue, Model(), None)
    assert queue.asked == [[1, 2], [3]]
    assert queue.plans == [[], []]


async def test_what_was_touched_is_first_again_after_a_model_that_failed() -> None:
    queue, order, model = Queue(4), CodeOrder(Graphs(), Graphs()), Model()
    order.touch("r", n(4))
    model.fails_at = 1
    with pytest.raises(EmbeddingUnavailable):
        await fill(queue, model, order, size=1)
    assert order.touched("r", 9) == n(4)
    await fill(queue, model, order, size=1)
    # At its place in the order it is asked for again, and has its vector.
    assert queue.asked == [[4], [4], [1], [2], [3], [4]]
