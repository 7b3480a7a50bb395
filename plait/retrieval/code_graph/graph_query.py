"""Consistent reads of the graph: a seqlock over the epoch of the outbox.

The graph holds one revision of each repository and is changed in batches, so a read could see part of a change. A
reader therefore reads the epoch, runs its query, and reads the epoch again: if both are equal and nothing was
changing, the query saw one state. Otherwise it waits and retries until its deadline. Templates of code and memories
are answered from the primary store and need none of this.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from plait.domain.deadline import Deadline
from plait.domain.errors import (
    AmbiguousSymbol,
    CypherInvalid,
    GraphUpdating,
    ResultTooLarge,
    UnknownSymbol,
)

T = TypeVar("T")

# Errors that depend on the state of the graph; one met during a change is retried.
OF_STATE = (UnknownSymbol, AmbiguousSymbol, CypherInvalid, ResultTooLarge, GraphUpdating)


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits between retries: short, because most projections after an edit take well under a second, and under a
    stream of episodes the graph is steady for some 30 ms between two deltas."""

    first_s: float = 0.02
    longest_s: float = 0.03


WAITS = Waits()


class Epochs(Protocol):
    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]: ...


async def read_steady(
    epochs: Epochs,
    repos: Sequence[str],
    read: Callable[[], Awaitable[T]],
    deadline: Deadline,
    *,
    waits: Waits = WAITS,
) -> T:
    """The result of `read` over one state of the graph of `repos` (all repositories when empty).

    `read` must be safe to repeat. It runs at least once if the graph is steady. An error that depends on the state
    of the graph, such as an unknown name, is raised if the graph was steady, else retried.

    Raises:
        GraphUpdating: the graph was not steady before the deadline.
    """
    wait_s = waits.first_s
    while True:
        before, changing = await epochs.epoch(repos)
        if not changing:
            try:
                answer, error = await read(), None
            except OF_STATE as exc:
                answer, error = None, exc
            if await epochs.epoch(repos) == (before, False):
                if error is None:
                    return cast(T, answer)
                if not isinstance(
                    error, GraphUpdating
                ):  # caused by changes that this epoch does not count
                    raise error
        # Half of the remaining time is reserved for the read itself.
        if deadline.left_s <= 2 * wait_s:
            names = ", ".join(sorted(repos)) or "all repositories"
            raise GraphUpdating(
                f"the graph of {names} is being updated and the deadline of {deadline.limit_s:g} s is "
                "too short to wait for it; ask again in a moment, or allow more time",
                repositories=names,
                limit_s=deadline.limit_s,
            )
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, waits.longest_s) * random.uniform(0.5, 1.0)  # noqa: S311
