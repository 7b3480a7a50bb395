"""Retention beside the server's calls: compaction when a scope passes its share of the budget."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Literal

from plait.domain.errors import Busy, PlaitError
from plait.domain.retention import Compaction, CompactionPlan
from plait.domain.scope import Scope
from plait.memory.retention import planning, trigger_tokens
from plait.memory.summarize import Summarizer, open_summarizer
from plait.ports import RetentionStore
from plait.settings import MemorySettings

logger = logging.getLogger(__name__)

# Writes come in bursts; usage is read once for each.
DEBOUNCE_S = 2.0
# A scope that stays over its budget, since all in it is pinned, is not planned anew at every write.
REST_S = 300.0
ATTEMPTS = 3


class Retention:
    """Plans and carries out compactions: on demand, and of scopes that it is told were written to."""

    def __init__(
        self,
        settings: MemorySettings,
        store: RetentionStore,
        written: Callable[[Collection[str]], None],
    ) -> None:
        self._settings = settings
        self._store = store
        self._written = written
        self._summarizer: Summarizer | None = None
        self._waiting: set[Scope] = set()
        self._rested: dict[Scope, float] = {}
        self._woken = asyncio.Event()

    def add(self, scopes: Collection[Scope]) -> None:
        """Something was stored in `scopes` (repository and agent)."""
        if self._settings.automatic and scopes:
            self._waiting |= set(scopes)
            self._woken.set()

    async def plan(self, scope: Scope, *, forced: bool) -> CompactionPlan:
        """What a compaction would do now. `forced`: whatever the budget says."""
        entries = await self._store.living(scope)
        deciding = planning(
            entries,
            self._settings,
            datetime.now(UTC),
            repo=scope.repository,
            agent_id=scope.agent_id,
            forced=forced,
        )
        if self._summarizer is None:
            self._summarizer = open_summarizer(self._settings)
        try:
            group = next(deciding)
            while True:
                summary = await self._summarizer.summarize(
                    group.entries, self._settings.summary_tokens
                )
                group = deciding.send(summary)
        except StopIteration as end:
            plan: CompactionPlan = end.value
            return plan

    async def compact(
        self, scope: Scope, undo_s: float, *, forced: bool
    ) -> tuple[CompactionPlan, Compaction | None]:
        """Plan and carry out; None when there is nothing to do. A plan that a writer came between is
        made again.

        Raises: StoreContended, when that happens each time.
        """
        for attempt in range(ATTEMPTS):
            plan = await self.plan(scope, forced=forced)
            if not any(step.into for step in plan.steps):
                return plan, None
            try:
                done = await self._store.compact(scope.tenant, plan, undo_s)
            except Busy:
                if attempt + 1 == ATTEMPTS:
                    raise
                continue
            self._written({scope.repository})
            return done.plan, done
        raise AssertionError("no attempt")

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Compact scopes that pass their trigger, until `stop` is set. Errors are logged."""
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                await self._rest(stopping)
                waiting, self._waiting = self._waiting, set()
                for tenant in {scope.tenant for scope in waiting}:
                    await self._look({scope for scope in waiting if scope.tenant == tenant}, tenant)
        finally:
            stopping.cancel()

    async def close(self) -> None:
        if self._summarizer is not None:
            await self._summarizer.close()

    async def _look(self, scopes: set[Scope], tenant: str) -> None:
        try:
            usage = await self._store.usage(tenant)
            for scope in scopes:
                tokens = usage.get((scope.repository, scope.agent_id), 0)
                if tokens >= trigger_tokens(self._settings) and self._rested_enough(scope):
                    await self._automatic(scope)
        except PlaitError as exc:
            extra = {"reason": exc.reason, "error": str(exc)}
            logger.warning("compaction failed", extra=extra)
        except Exception:
            logger.exception("compaction failed")

    async def _automatic(self, scope: Scope) -> None:
        plan, done = await self.compact(scope, self._settings.undo_s, forced=False)
        fields = {"repo": scope.repository, "agent": scope.agent_id, "before": plan.tokens_before}
        if done is None:
            self._rested[scope] = asyncio.get_running_loop().time() + REST_S
            logger.warning("a scope is over its budget and nothing in it may go", extra=fields)
            return
        after = {"compaction": str(done.id), "after": plan.tokens_after}
        logger.info("compacted", extra=fields | after)

    def _rested_enough(self, scope: Scope) -> bool:
        if asyncio.get_running_loop().time() < self._rested.get(scope, 0.0):
            return False
        self._rested.pop(scope, None)
        return True

    async def _rest(self, stopping: asyncio.Future[Literal[True]]) -> None:
        if not self._waiting:
            self._woken.clear()
            woken = asyncio.ensure_future(self._woken.wait())
            try:
                await asyncio.wait({stopping, woken}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                woken.cancel()
        await asyncio.wait({stopping}, timeout=DEBOUNCE_S)
