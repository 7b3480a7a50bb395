"""Reads side by side: all of them, or the first error and nothing left running."""

from __future__ import annotations

import asyncio

import pytest

from plait.domain.gather import all_of


async def test_answers_come_in_the_order_of_the_questions() -> None:
    ended = [asyncio.Event() for _ in range(3)]

    async def after(earlier: int | None, own: int) -> int:
        if earlier is not None:
            await ended[earlier].wait()
        ended[own].set()
        return own

    assert await all_of(after(2, 0), after(None, 1), after(1, 2)) == [0, 1, 2]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_none_outlives_a_failure_or_the_caller(cancelled: bool) -> None:
    ended: list[str] = []
    runs, fails = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        try:
            runs.set()
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def failing() -> None:
        await fails.wait()
        raise ValueError("first")

    asked = asyncio.create_task(all_of(endless(), failing()))
    await runs.wait()
    if cancelled:
        asked.cancel()
    else:
        fails.set()
    with pytest.raises(asyncio.CancelledError if cancelled else ValueError):
        await asked
    assert ended == ["endless"]
