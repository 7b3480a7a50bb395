"""The projector: outbox events of the truth store, applied to the graph until none is left.

One event at a time for each repository; the graph records every batch, so a projector that dies
half-way is continued by the next one, in whichever process that runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable
from typing import Literal

from plait.domain import failpoint
from plait.domain.errors import Busy, Exhausted, OutOfTime, PlaitError, Unavailable
from plait.ports import GraphDelta, GraphStore, Outbox

logger = logging.getLogger(__name__)

# What heals without a change to the event: a server that is away, a full disk, a lock, a slow moment.
TRANSIENT = (Unavailable, Exhausted, Busy, OutOfTime)

# Between two deltas of the memory layer: the next one covers what came meanwhile, which saves a claim
# and a graph transaction each, and who reads the memory layer finds it at rest.
PAUSE_S = 0.03
# What another process queues, it projects itself: a look now and then is for one that died over it. A server
# that nobody calls is to cost no CPU.
LONGEST_IDLE_S = 15.0
# Between two looks at how much waits for a graph that nobody asks: each reads through what is kept for it.
SHORTEN_S = 30.0
# Tries of an event that fails by an error that is not ours, before it makes way for what waits behind it.
BUG_ATTEMPTS = 3


class Projector:
    """Moves events from `outbox` to the graph. `open_graph` is called on the first event only, so a
    process that never projects never starts a graph server. The graph stays the caller's to close.

    `wanted`: whether `run_forever` is to project now. While it is not, events are settled (what they
    decide in the primary store) and wait; when too many do, they become one that makes the graph anew.
    """

    def __init__(
        self,
        outbox: Outbox,
        open_graph: Callable[[], Awaitable[GraphStore]],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._outbox = outbox
        self._open_graph = open_graph
        self._wanted = wanted
        self._woken = asyncio.Event()
        self.at_work = False  # an event is being projected
        self._shorten_at = 0.0  # not before this `time.monotonic()`
        self._was_woken = True

    def wake(self) -> None:
        """Something was queued: `run_forever` looks at once instead of at its next turn."""
        self._was_woken = True
        self._woken.set()

    async def run_until_idle(self, stop: asyncio.Event | None = None) -> int:
        """Project everything that waits and can run now, or until `stop` is set; return how many
        deltas that were.

        Raises: the error of an event that could not be projected, after giving the event back
        (or, when trying again can't help, moving it to the dead letters with its cause).
        """
        projected = 0
        while (stop is None or not stop.is_set()) and (delta := await self._one()):
            projected += 1
            if not delta.number and not delta.remove_repo:
                await asyncio.sleep(PAUSE_S)
        return projected

    async def run_forever(self, stop: asyncio.Event, idle_s: float = 0.25) -> None:
        """Project until `stop` is set: when woken, and for what other processes queue every `idle_s`
        seconds, more and more seldom while nothing comes. Errors are logged and retried."""
        pause_s = idle_s
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                self._woken.clear()
                projected = 1
                try:
                    if self._wanted():
                        projected = await self.run_until_idle(stop)
                    else:
                        projected = await self.settle()
                except PlaitError as exc:
                    extra = {"reason": exc.reason, "error": str(exc)}
                    logger.warning("projection failed", extra=extra)
                    await asyncio.wait({stopping}, timeout=idle_s)  # however it wakes
                woken = await self._rest(stopping, pause_s)
                pause_s = idle_s if woken or projected else min(1.2 * pause_s, LONGEST_IDLE_S)
        finally:
            stopping.cancel()

    async def settle(self) -> int:
        """What need not wait for the next projection, whenever that comes; in how many repositories."""
        settled = await self._outbox.settle()
        if time.monotonic() >= self._shorten_at and (settled or self._was_woken):
            self._shorten_at = time.monotonic() + SHORTEN_S
            self._was_woken = False
            await self._outbox.shorten()
        return settled

    async def _rest(self, stopping: asyncio.Future[Literal[True]], idle_s: float) -> bool:
        """Whether a wake-up came before `idle_s` had passed."""
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({stopping, woken}, timeout=idle_s, return_when=FIRST_COMPLETED)
            return woken.done()
        finally:
            woken.cancel()

    async def _one(self) -> GraphDelta | None:
        """Project one delta and return it; None when nothing can run."""
        delta = await self._outbox.claim()
        if delta is None:
            return None
        self.at_work = True
        try:
            graph = await self._open_graph()
            await graph.apply(delta)
            failpoint.hit("project.before_done")
        except Exception as exc:
            if await self._failed(delta, exc):
                return delta
            raise
        except BaseException:
            # Cancelled, as by a caller's deadline: release the claim, so that another projector gets the event.
            await asyncio.shield(self._outbox.release(delta.event_id))
            raise
        finally:
            self.at_work = False
        await self._outbox.done(delta.event_id)
        return delta

    async def _failed(self, delta: GraphDelta, exc: Exception) -> bool:
        """Release the claim of `delta` or dead-letter it; True when there is more to do at once."""
        ours = isinstance(exc, PlaitError)
        memory = not delta.number and not delta.remove_repo
        # Other exceptions are bugs: the claim is released, so that no event is lost.
        permanent = (ours and not isinstance(exc, TRANSIENT)) or (
            not ours and memory and delta.attempt >= BUG_ATTEMPTS
        )
        cause = f"{exc.reason if isinstance(exc, PlaitError) else type(exc).__name__}: {exc}"
        split = await self._outbox.failed(delta.event_id, cause, permanent=permanent)
        if split:
            logger.warning(
                "events are projected apart", extra={"repo": delta.repo, "error": cause[:500]}
            )
            return True
        if ours or not delta.number or delta.fresh:
            return False
        # The graph is not what the difference was made against, or its server has a bug that this
        # difference meets: it would fail in every try, and the graph would stay behind for good.
        logger.warning("graph is projected anew", extra={"repo": delta.repo, "error": cause[:500]})
        await self._outbox.reset(delta.repo)
        return True
