"""The seqlock: a reader sees one state of the graph, or is told to come back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.deadline import Deadline
from plait.domain.errors import GraphUpdating, UnknownSymbol
from plait.retrieval.code_graph.graph_query import Waits
from plait.retrieval.code_graph.graph_query import read_steady as read_waiting

read_steady = partial(read_waiting, waits=Waits(0.0001, 0.0001))


class Scripted:
    """Epochs that are told one after the other; the last one stays."""

    def __init__(self, *epochs: tuple[int, bool]) -> None:
        self._epochs = list(epochs)
        self.asked: list[Sequence[str]] = []

    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]:
        self.asked.append(repos)
        return self._epochs.pop(0) if len(self._epochs) > 1 else self._epochs[0]


class Reads:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> int:
        self.count += 1
        return self.count


async def test_a_steady_graph_is_read_once() -> None:
    epochs, read = Scripted((7, False)), Reads()
    assert await read_steady(epochs, ("a",), read, Deadline.after(60.0)) == 1
    assert epochs.asked == [("a",), ("a",)]


async def test_a_change_during_the_read_reads_again() -> None:
    epochs, read = Scripted((1, False), (2, False), (2, False)), Reads()
    assert await read_steady(epochs, (), read, Deadline.after(60.0)) == 2


async def test_a_change_that_began_during_the_read_reads_again() -> None:
    epochs, read = Scripted((1, False), (1, True), (1, True), (2, False)), Reads()
    assert await read_steady(epochs, (), read, Deadline.after(60.0)) == 2


class Fails(Reads):
    """Raises `error` in the first `times` reads."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__()
        self.error, self.times = error, times

    async def __call__(self) -> int:
        count = await super().__call__()
        if count <= self.times:
            raise self.error
        return count


async def test_what_was_missing_from_half_a_graph_is_looked_for_again() -> None:
    epochs = Scripted((1, False), (2, False), (2, False))
    assert await read_steady(epochs, (), Fails(UnknownSymbol("f"), 1), Deadline.after(60.0)) == 2


async def test_what_is_missing_from_a_steady_graph_is_said_at_once() -> None:
    read = Fails(UnknownSymbol("f"), 9)
    with pytest.raises(UnknownSymbol):
        await read_steady(Scripted((1, False)), (), read, Deadline.after(60.0))
    assert read.count == 1


async def test_a_read_that_met_deletions_of_another_layer_is_made_again() -> None:
    epochs, read = Scripted((1, False)), Fails(GraphUpdating("deleted"), 3)
    assert await read_steady(epochs, (), read, Deadline.after(60.0)) == 4


async def test_nothing_is_read_while_the_graph_changes() -> None:
    read = Reads()
    with pytest.raises(GraphUpdating, match="flask") as caught:
        await read_steady(Scripted((1, True)), ("flask",), read, Deadline.after(0.05))
    assert read.count == 0
    assert caught.value.metadata["repositories"] == "flask"


async def test_no_time_left_still_reads_a_steady_graph() -> None:
    assert await read_steady(Scripted((1, False)), (), Reads(), Deadline.after(0)) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
async def test_an_answer_was_always_read_between_two_equal_steady_epochs(
    script: list[tuple[int, bool]],
) -> None:
    epochs = Scripted(*script, (9, False))
    seen: list[tuple[int, bool]] = []
    real = epochs.epoch

    async def watched(repos: Sequence[str]) -> tuple[int, bool]:
        seen.append(await real(repos))
        return seen[-1]

    epochs.epoch = watched  # type: ignore[method-assign]
    await read_steady(epochs, (), Reads(), Deadline.after(60))
    assert seen[-1] == seen[-2]
    assert not seen[-1][1]
