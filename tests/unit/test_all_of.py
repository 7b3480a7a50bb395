"""Reads side by side: all of them, or the first error and nothing left running."""

from __future__ import annotations

import asyncio

import pytest

from plait.retrieval.gather import all_of


async def test_answers_come_in_the_order_of_the_questions() -> None:
    async def after(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await all_of(after(3), after(1), after(2)) == [3, 1, 2]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_none_outlives_a_failure_or_the_caller(cancelled: bool) -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("endless")

    async def failing() -> None:
        await asyncio.sleep(0)
        if not cancelled:
            raise ValueError("first")
        await asyncio.Event().wait()

    asked = asyncio.create_task(all_of(endless(), failing()))
    for _ in range(3):  # until both run
        await asyncio.sleep(0)
    if cancelled:
        asked.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ValueError):
        await asked
    assert ended == ["endless"]
