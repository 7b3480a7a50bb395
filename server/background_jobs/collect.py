"""Collection beside the server's calls: receipts of recalls that are past their time, once an hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from plait.domain.errors import PlaitError

logger = logging.getLogger(__name__)

# A start is busy enough; receipts are kept for days, so an hour more or less is nothing.
FIRST_S = 60.0
EVERY_S = 3_600.0


class Receipts(Protocol):
    """Of a `RecallStore` what collection asks."""

    async def collect(self) -> Mapping[str, int]: ...


class Collector:
    """Removes what `recall.keep_s` no longer covers."""

    def __init__(
        self, store: Receipts, *, first_s: float = FIRST_S, every_s: float = EVERY_S
    ) -> None:
        self._store = store
        self._first_s = first_s
        self._every_s = every_s

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors are logged; the next hour is the next try."""
        wait_s = self._first_s
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait_s)
                return
            wait_s = self._every_s
            await self.collect()

    async def collect(self) -> None:
        """Once, now."""
        try:
            removed = await self._store.collect()
        except PlaitError as exc:
            logger.warning(
                "collecting receipts failed", extra={"reason": exc.reason, "error": str(exc)}
            )
        except Exception:  # a fault here must not end the collection of a server's whole life
            logger.exception("collecting receipts failed")
        else:
            if any(removed.values()):
                logger.info("receipts collected", extra=dict(removed))
