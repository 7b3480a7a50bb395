"""Several reads side by side, of which none outlives the others' failure."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def all_of(*reads: Coroutine[Any, Any, Any]) -> list[Any]:
    """What `reads` return, in their order. When one fails the others are cancelled and waited for, and its
    error is raised: `asyncio.gather` would leave them to run for nobody."""
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
                task.exception()  # fetched, so that a second failure is no warning
