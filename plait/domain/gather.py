"""Run several reads concurrently; when one fails, cancel the others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def all_of(*reads: Coroutine[Any, Any, Any]) -> list[Any]:
    """The results of `reads`, in order. When one fails, the others are cancelled and awaited and its error is
    raised; `asyncio.gather` alone would leave them running."""
    tasks = [asyncio.create_task(read) for read in reads]
    try:
        return await asyncio.gather(*tasks)
    finally:
        unfinished = [task for task in tasks if not task.done()]
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.gather(*unfinished, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not log a second failure
