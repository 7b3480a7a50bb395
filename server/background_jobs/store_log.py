"""The embedded store's log, shortened in a quiet moment after a large write, an index run say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from plait.domain.errors import PlaitError

logger = logging.getLogger(__name__)

EVERY_S = 60.0


class Log(Protocol):
    """Of the primary store what this needs."""

    async def shorten_log(self) -> int: ...


class LogShortener:
    """`busy`: whether anything is answered or written; then the next look is soon enough."""

    def __init__(self, store: Log, busy: Callable[[], bool], *, every_s: float = EVERY_S) -> None:
        self._store = store
        self._busy = busy
        self._every_s = every_s

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors are logged; the server's own checkpoints come all the same."""
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._every_s)
                return
            if not self._busy():
                await self.look()

    async def look(self) -> None:
        """Once, now."""
        try:
            covered = await self._store.shorten_log()
        except PlaitError as exc:
            logger.warning(
                "the log was not shortened", extra={"reason": exc.reason, "error": str(exc)}
            )
        except Exception:  # the loop must outlive a fault
            logger.exception("the log was not shortened")
        else:
            if covered:
                logger.info("log shortened", extra={"bytes": covered})
