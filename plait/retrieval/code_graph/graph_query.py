"""Read the graph between two projections: a seqlock over the outbox's epoch.

The graph holds one revision a repository and is changed in batches, which a reader could see part of.
So a reader takes the epoch, asks, and takes the epoch again: equal and steady means that all it saw
was of one state. Else it waits and asks again, for as long as its deadline allows. Episodes and
memories come all the time: who asks for code alone takes no notice of them.
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

# What a read says of what it found, or of a server that met half a change.
OF_STATE = (UnknownSymbol, AmbiguousSymbol, CypherInvalid, ResultTooLarge, GraphUpdating)


@dataclass(frozen=True, slots=True)
class Waits:
    """Between tries: short at first, as most projections after an edit take well under a second.

    Under a stream of episodes the graph rests for some 30 ms between two deltas: `longest_memory_s` is not
    to sleep past it.
    """

    first_s: float = 0.02
    longest_s: float = 0.5
    longest_memory_s: float = 0.03


WAITS = Waits()


class Epochs(Protocol):
    async def epoch(self, repos: Sequence[str], *, memory: bool = True) -> tuple[int, bool]: ...


async def read_steady(
    epochs: Epochs,
    repos: Sequence[str],
    read: Callable[[], Awaitable[T]],
    deadline: Deadline,
    *,
    memory: bool = True,
    waits: Waits = WAITS,
) -> T:
    """What `read` returns over one state of the graph of `repos` (of all repositories when empty);
    with `memory` False over one state of its code.

    `read` must be safe to repeat. It runs at least once if the graph is steady, however often the
    graph changed before. What it raises of the graph's state, a name that nothing has say, is an answer
    like another: it counts if the graph held still.

    Raises:
        GraphUpdating: the graph did not hold still before the deadline.
    """
    wait_s = waits.first_s
    while True:
        before, changing = await epochs.epoch(repos, memory=memory)
        if not changing:
            try:
                answer, error = await read(), None
            except OF_STATE as exc:
                answer, error = None, exc
            if await epochs.epoch(repos, memory=memory) == (before, False):
                if error is None:
                    return cast(T, answer)
                if not isinstance(error, GraphUpdating):  # of changes that this epoch leaves out
                    raise error
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
        longest_s = waits.longest_memory_s if memory else waits.longest_s
        wait_s = min(2 * wait_s, longest_s) * random.uniform(0.5, 1.0)  # noqa: S311
