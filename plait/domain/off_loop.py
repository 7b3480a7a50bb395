"""Work that holds the processor: at once where it is little, in a thread where it would keep others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Characters that are read in the loop: 10 to 50 ms of what is done with texts here. A thread costs 0.1 ms.
LITTLE = 200_000


async def off_loop(chars: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`work(*args)`, over texts of `chars` characters in all; it must share nothing that changes meanwhile."""
    if chars <= LITTLE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
