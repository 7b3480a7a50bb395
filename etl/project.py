"""The projector: outbox events of the truth store, applied to the graph until none is left.

One event at a time for each repository; the graph records every batch, so a projector that dies
half-way is continued by the next one, in whichever process that runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from plait.domain import failpoint
from plait.domain.errors import Busy, Exhausted, OutOfTime, PlaitError, Unavailable
from plait.ports import GraphStore, Outbox

logger = logging.getLogger(__name__)

# What heals without a change to the event: a server that is away, a full disk, a lock, a slow moment.
TRANSIENT = (Unavailable, Exhausted, Busy, OutOfTime)


class Projector:
    """Moves events from `outbox` to the graph. `open_graph` is called on the first event only, so a
    process that never projects never starts a graph server. The graph stays the caller's to close."""

    def __init__(self, outbox: Outbox, open_graph: Callable[[], Awaitable[GraphStore]]) -> None:
        self._outbox = outbox
        self._open_graph = open_graph

    async def run_until_idle(self) -> int:
        """Project everything that waits and can run now; return how many events that were.

        Raises: the error of an event that could not be projected, after giving the event back
        (or, when trying again can't help, moving it to the dead letters with its cause).
        """
        projected = 0
        while await self._one():
            projected += 1
        return projected

    async def run_forever(self, stop: asyncio.Event, idle_s: float = 0.5) -> None:
        """Project until `stop` is set, looking every `idle_s` seconds; errors are logged and retried."""
        while not stop.is_set():
            try:
                await self.run_until_idle()
            except PlaitError as exc:
                logger.warning("projection failed", extra={"reason": exc.reason, "error": str(exc)})
            try:
                await asyncio.wait_for(stop.wait(), idle_s)
            except TimeoutError:
                continue

    async def _one(self) -> bool:
        delta = await self._outbox.claim()
        if delta is None:
            return False
        try:
            graph = await self._open_graph()
            await graph.apply(delta)
        except Exception as exc:
            # What is not ours is a bug: given back, so that nothing is lost by it.
            permanent = isinstance(exc, PlaitError) and not isinstance(exc, TRANSIENT)
            cause = exc.reason if isinstance(exc, PlaitError) else type(exc).__name__
            await self._outbox.failed(delta.event_id, f"{cause}: {exc}", permanent=permanent)
            if isinstance(exc, PlaitError) or not delta.number or delta.fresh:
                raise
            # The graph is not what the difference was made against, or its server has a bug that this
            # difference meets: it would fail in every try, and the graph would stay behind for good.
            logger.warning(
                "graph is projected anew", extra={"repo": delta.repo, "error": f"{cause}: {exc}"}
            )
            await self._outbox.reset(delta.repo)
            return True
        failpoint.hit("project.before_done")
        await self._outbox.done(delta.event_id)
        return True
