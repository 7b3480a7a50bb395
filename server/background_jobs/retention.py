"""Retention beside the server's calls: compaction when a scope passes its share of the budget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Literal

from plait.domain.errors import PlaitError
from plait.domain.retention import Budget, Compaction
from plait.domain.scope import Scope
from plait.memory.compact import Automatic, compact
from plait.memory.summarize import Summarizer, open_summarizer
from plait.ports import RetentionStore
from plait.settings import MemorySettings

logger = logging.getLogger(__name__)

# Writes come in bursts; a scope's usage is read once for each.
DEBOUNCE_S = 1.0


class Retention:
    """Compacts on demand, and behind writes the scopes it is told of. `written` hears what changed."""

    def __init__(
        self,
        settings: MemorySettings,
        store: RetentionStore,
        written: Callable[[Collection[str]], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._written = written
        self._opened: Summarizer | None = None
        self._waiting: set[Scope] = set()
        self._woken = asyncio.Event()

    @property
    def _summarizer(self) -> Summarizer:
        """Opened on first need: a model's client costs a third of a second."""
        if self._opened is None:
            self._opened = open_summarizer(self._settings)
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def add(self, scopes: Collection[Scope]) -> None:
        """Something was stored in `scopes` (tenant, repository, agent)."""
        if self._settings.automatic and scopes:
            self._waiting |= set(scopes)
            self._woken.set()

    async def compact(
        self,
        scope: Scope,
        *,
        budget: Budget,
        dry_run: bool,
        undo_s: float | None,
        request_id: str,
    ) -> Compaction:
        """As `plait.memory.compact.compact`."""
        done = await compact(
            self._store,
            self._summarizer,
            scope,
            self._settings,
            budget=budget,
            dry_run=dry_run,
            undo_s=undo_s,
            request_id=request_id,
        )
        if not dry_run:
            self._written({scope.repository})
        return done

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Compact scopes that are due, until `stop` is set. Errors are logged; the next write is the
        next try."""
        automatic = Automatic(self._store, self._summarizer, self._settings)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                await self._rest(stopping)
                waiting, self._waiting = self._waiting, set()
                for scope in waiting:
                    if not stop.is_set():
                        await self._look(automatic, scope)
        finally:
            stopping.cancel()

    async def _look(self, automatic: Automatic, scope: Scope) -> None:
        try:
            if await automatic.after_write(scope) is not None:
                self._written({scope.repository})
        except Exception as exc:
            fields = {"repo": scope.repository, "agent": scope.agent_id, "error": str(exc)}
            if isinstance(exc, PlaitError):
                logger.warning("compaction failed", extra=fields | {"reason": exc.reason})
            else:
                logger.exception("compaction failed", extra=fields)

    async def _rest(self, stopping: asyncio.Future[Literal[True]]) -> None:
        if not self._waiting:
            self._woken.clear()
            woken = asyncio.ensure_future(self._woken.wait())
            try:
                await asyncio.wait({stopping, woken}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
        await asyncio.wait({stopping}, timeout=DEBOUNCE_S)
