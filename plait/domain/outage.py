"""How a long run survives an outage of a store: it waits, reports that, and resumes where it was.

A run states its patience once (`ride_out`); the stores' own retries of whole transactions then last as
long. A call of the service has no patience of this kind: its caller has a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from plait.domain.errors import GraphUnavailable, PlaitError, StoreUnavailable, StreamBroken

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

# 0.5 s, then twice as long each time up to 5 s, each up to half a second longer: an outage's end is
# noticed within seconds, and many runs do not come back at the same moment.
FIRST_S, LONGEST_S, JITTER_S = 0.5, 5.0, 0.5

# A server that lost its store may end a stream before its reason has arrived.
AWAY = frozenset({StoreUnavailable.reason, GraphUnavailable.reason, StreamBroken.reason})

OnWait = Callable[[str, float], None]


def ignore(store: str, waited_s: float) -> None:
    """For a run without a progress display."""


@dataclass(frozen=True, slots=True)
class Patience:
    """`longest_s`: how long one outage may last. `on_wait(store, waited_s)` is called before each wait, and
    with `waited_s` 0 when the store is back."""

    longest_s: float
    on_wait: OnWait = ignore

    async def through(self, work: Callable[[], Awaitable[T]]) -> T:
        """`work()`, again for as long as it fails because a store is away. It must be safe to repeat.

        Raises: what `work` raises; after `longest_s` of one outage, that outage's error.
        """

        # Here: it costs a command 20 ms, and who never waits needs none of it.
        from tenacity import AsyncRetrying, wait_exponential, wait_random

        def again(state: RetryCallState) -> bool:
            exc = state.outcome.exception() if state.outcome else None
            return exc is not None and is_away(exc)

        started = time.monotonic()
        store = ""

        def wait(state: RetryCallState) -> None:
            nonlocal store
            exc = state.outcome.exception() if state.outcome else None
            store = store_of(exc)
            self.on_wait(store, time.monotonic() - started)

        retrying = AsyncRetrying(
            retry=again,
            wait=wait_exponential(multiplier=FIRST_S, max=LONGEST_S) + wait_random(0, JITTER_S),
            stop=lambda state: time.monotonic() - started >= self.longest_s,
            before_sleep=wait,
            reraise=True,
        )
        async for trial in retrying:
            with trial:
                out = await work()
                if store:
                    self.on_wait(store, 0.0)
                return out
        raise AssertionError("tenacity ends by returning or raising")


def is_away(exc: BaseException) -> bool:
    """Whether `exc` means that a store does not answer: this process's own error, or a server's."""
    return isinstance(exc, PlaitError) and exc.reason in AWAY


def store_of(exc: BaseException | None) -> str:
    """The display name of the unavailable store in `exc`."""
    graph = isinstance(exc, GraphUnavailable) or (
        isinstance(exc, PlaitError) and exc.reason == GraphUnavailable.reason
    )
    return "the graph server" if graph else "PostgreSQL"


_patience: ContextVar[Patience | None] = ContextVar("patience", default=None)


def patience() -> Patience | None:
    """That of the run which this task belongs to; None in a call."""
    return _patience.get()


@contextmanager
def ride_out(given: Patience) -> Iterator[Patience]:
    """The block is a run that waits for stores that are away."""
    token = _patience.set(given)
    try:
        yield given
    finally:
        _patience.reset(token)
