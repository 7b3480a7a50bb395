"""Recall: the pipeline with a context block at its end, its receipt, and what is said of it later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plait.domain.deadline import Deadline
from plait.domain.recall import Block, Dropped, Impact, RecallId, RecallOptions
from plait.domain.values import ItemId, Timing
from plait.ports import View
from plait.retrieval.context import Degraded, Deps, SearchContext, Snapshot, Stage
from plait.retrieval.query import SearchQuery, analyse
from plait.retrieval.runner import plan, run
from plait.retrieval.stages import STAGES
from plait.retrieval.strategy import Kind


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """`recall_id` None: no receipt was kept. `block.silence` says why a context is empty. `replay_of`: the
    recall that this repeats, `same` whether it answers the same."""

    block: Block
    view: View
    kind: Kind
    recall_id: RecallId | None = None
    impact: Impact = field(default_factory=Impact)
    why_not: Mapping[ItemId, Dropped] | None = None
    degraded: tuple[Degraded, ...] = ()
    timings: tuple[Timing, ...] = ()
    trail: tuple[Snapshot, ...] = ()  # the candidates stage by stage, where the query explains
    replay_of: RecallId | None = None
    same: bool = False


class RecallService:
    """Answers recalls over one `Deps`, with the same tuple of stages as search."""

    def __init__(self, deps: Deps, stages: Sequence[Stage] = STAGES) -> None:
        self._deps = deps
        self._stages = tuple(stages)

    async def recall(self, query: SearchQuery, options: RecallOptions) -> RecallAnswer:
        """A context for `query`, never over its budget.

        Raises: as `SearchService.search`.
        """
        settings = self._deps.settings
        ctx = SearchContext(
            query=query,
            asked=analyse(query),
            k=query.k or self._deps.recall.items,
            fusion=query.fusion or settings.fusion,
            deadline=query.deadline or Deadline.after(settings.timeout_s),
            options=options,
        )
        ctx = await run(ctx, self._deps, plan(query.mode, self._stages, query.off))
        assert ctx.block is not None
        return RecallAnswer(
            ctx.block,
            ctx.at,
            ctx.strategy.kind,
            impact=ctx.impact,
            degraded=ctx.degraded,
            timings=ctx.timings,
            trail=ctx.trail,
        )
