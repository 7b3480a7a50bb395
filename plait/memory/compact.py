"""Compaction as a service: plan a scope, ask the summarizer, carry it out. For servers and commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from plait.domain.errors import StoreContended
from plait.domain.retention import Budget, Compaction, CompactionPlan, Summary
from plait.domain.scope import Scope
from plait.memory import retention
from plait.memory.retention import Group, Planning
from plait.memory.summarize import Summarizer
from plait.ports import RetentionStore
from plait.settings import MemorySettings

logger = logging.getLogger(__name__)

# Plans that were overtaken by a writer are made again this often.
MAX_PLANS = 4
# A scope that stayed too large is looked at again when it has grown by this share of its budget.
AGAIN = 0.05
NOTHING = UUID(int=0)  # the id of a compaction that was not carried out


def utc_now() -> datetime:
    return datetime.now(UTC)


async def compact(
    store: RetentionStore,
    summarizer: Summarizer,
    scope: Scope,
    settings: MemorySettings,
    *,
    budget: Budget = Budget.STORED,
    dry_run: bool = False,
    forced: bool = True,
    undo_s: float | None = None,
    request_id: str = "",
    clock: Callable[[], datetime] = utc_now,
) -> Compaction:
    """Compact what `scope` (tenant, repository, agent; "" is the agent that is not named) has of `budget`.

    The answer's id is `NOTHING` for a dry run, and where there was nothing to do. `forced` False: only
    when `compact_at` of the budget is passed. A `request_id` that was carried out gets the same answer
    again. Raises: StoreContended, when writers were faster than `MAX_PLANS` plans.
    """
    if request_id and (known := await store.compacted(scope.tenant, scope.repository, request_id)):
        return known
    for left in reversed(range(MAX_PLANS)):
        now = clock()
        plan = await make_plan(
            store, summarizer, scope, settings, now=now, budget=budget, forced=forced
        )
        if dry_run or not plan.closed:
            return Compaction(NOTHING, plan, now, now)
        try:
            window = settings.undo_s if undo_s is None else undo_s
            done = await store.compact(scope.tenant, plan, window, request_id)
        except StoreContended:
            if not left:
                raise
            continue
        logger.info("compacted", extra=_log_fields(done))
        return done
    raise AssertionError("the last try returns or raises")


async def make_plan(
    store: RetentionStore,
    summarizer: Summarizer,
    scope: Scope,
    settings: MemorySettings,
    *,
    now: datetime,
    budget: Budget = Budget.STORED,
    forced: bool = True,
) -> CompactionPlan:
    """What `compact` would do now. Asks the summarizer, stores nothing."""
    total = await used(store, scope, budget)
    most = retention.MAX_EXAMINED if budget is Budget.RUNS else 0
    entries = await store.living(scope, budget, most)
    use = await store.use(scope, [entry.id for entry in entries])
    planning = retention.planning(
        entries,
        settings,
        now,
        repo=scope.repository,
        agent_id=scope.agent_id,
        forced=forced,
        budget=budget,
        use=use,
        total=total if most else None,
    )
    # In threads: a second of work on five thousand memories, beside which the server answers.
    made = await asyncio.to_thread(_step, planning, None)
    while isinstance(made, Group):
        summary = await summarizer.summarize(made.entries, settings.summary_tokens)
        made = await asyncio.to_thread(_step, planning, summary)
    return made


def _step(planning: Planning, summary: Summary | None) -> Group | CompactionPlan:
    """The next group to summarize, or the plan. (A StopIteration can't leave a thread.)"""
    try:
        return next(planning) if summary is None else planning.send(summary)
    except StopIteration as end:
        plan: CompactionPlan = end.value
        return plan


async def over_budget(
    store: RetentionStore, scope: Scope, settings: MemorySettings, budget: Budget = Budget.STORED
) -> bool:
    """Whether the scope has `compact_at` of a budget or more. One small read."""
    return await used(store, scope, budget) >= retention.trigger_tokens(settings, budget)


async def used(store: RetentionStore, scope: Scope, budget: Budget = Budget.STORED) -> int:
    """Tokens of what lives of a budget."""
    found = await store.usage(scope.tenant, scope.repository, scope.agent_id)
    known = found.get((scope.repository, scope.agent_id, budget))
    return known.tokens if known else 0


@dataclass(slots=True)
class Automatic:
    """Compacts scopes behind writes. One a server; `after_write` may be called at once for one scope:
    the second call finds the first at work and leaves it alone."""

    store: RetentionStore
    summarizer: Summarizer
    settings: MemorySettings
    _working: set[Scope] = field(default_factory=set)
    # Tokens that could not be made fewer.
    _stuck: dict[tuple[Scope, Budget], int] = field(default_factory=dict)

    async def after_write(self, scope: Scope) -> Compaction | None:
        """Compact `scope` where it is due: a budget of which it has `compact_at`, and when nothing could be
        done the last time, once it has grown by `AGAIN` of it. What was done to the last that was due."""
        scope = Scope(scope.tenant, scope.repo, scope.agent_id)
        if not self.settings.automatic or scope in self._working:
            return None
        self._working.add(scope)
        try:
            found = await self.store.usage(scope.tenant, scope.repository, scope.agent_id)
            done = None
            for budget in Budget:
                known = found.get((scope.repository, scope.agent_id, budget))
                if known is not None and self._is_due(scope, budget, known.tokens):
                    done = await self._compact(scope, budget)
            return done
        finally:
            self._working.discard(scope)

    def _is_due(self, scope: Scope, budget: Budget, tokens: int) -> bool:
        most = retention.most_tokens(self.settings, budget)
        if not most or tokens < retention.trigger_tokens(self.settings, budget):
            return False
        stuck = self._stuck.get((scope, budget))
        return stuck is None or tokens >= stuck + AGAIN * most

    async def _compact(self, scope: Scope, budget: Budget) -> Compaction:
        done = await compact(
            self.store, self.summarizer, scope, self.settings, budget=budget, forced=False
        )
        # Of a large budget a plan looks at a part: what closed something may go on behind the next write.
        still = done.plan.tokens_after >= retention.trigger_tokens(self.settings, budget)
        if still and not (done.plan.closed and budget is Budget.RUNS):
            self._stuck[scope, budget] = done.plan.tokens_after
        else:
            self._stuck.pop((scope, budget), None)
        return done


def _log_fields(done: Compaction) -> dict[str, object]:
    plan = done.plan
    return {
        "compaction": str(done.id),
        "budget": plan.budget.value,
        "repo": plan.repo,
        "closed": len(plan.closed),
        "summaries": len(plan.summaries),
        "tokens_before": plan.tokens_before,
        "tokens_after": plan.tokens_after,
        "degraded": len(plan.notes),
    }
