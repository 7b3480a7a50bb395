"""Read the graph between two projections: a seqlock over the outbox's epoch.

The graph holds one revision a repository and is changed in batches, which a reader could see part of.
So a reader takes the epoch, asks, and takes the epoch again: equal and steady means that all it saw
was of one state. Else it waits and asks again, for as long as its deadline allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from plait.domain.deadline import Deadline
from plait.domain.errors import GraphUpdating

T = TypeVar("T")

# Waits between tries: short at first, as most projections after an edit take well under a second.
FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 0.5


class Epochs(Protocol):
    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]: ...


async def read_steady(
    epochs: Epochs,
    repos: Sequence[str],
    read: Callable[[], Awaitable[T]],
    deadline: Deadline,
) -> T:
    """What `read` returns over one state of the graph of `repos` (of all repositories when empty).

    `read` must be safe to repeat. It runs at least once if the graph is steady, however often the
    graph changed before.

    Raises:
        GraphUpdating: the graph did not hold still before the deadline.
    """
    wait_s = FIRST_WAIT_S
    while True:
        before, changing = await epochs.epoch(repos)
        if not changing:
            answer = await read()
            if await epochs.epoch(repos) == (before, False):
                return answer
        # Half of what is left stays for the read itself.
        if deadline.left_s <= 2 * wait_s:
            names = ", ".join(sorted(repos)) or "all repositories"
            raise GraphUpdating(
                f"the graph of {names} is being updated and the deadline of {deadline.limit_s:g} s is "
                "too short to wait for it; ask again in a moment, or allow more time",
                repositories=names,
                limit_s=deadline.limit_s,
            )
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, LONGEST_WAIT_S)
