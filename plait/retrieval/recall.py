"""Recall: the pipeline that ends in a context block, its receipt, its replay, and feedback on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from plait.domain.deadline import Deadline
from plait.domain.errors import NotBuilt
from plait.domain.recall import (
    Block,
    Dropped,
    Feedback,
    FeedbackReceipt,
    Impact,
    PackingOptions,
    RecallId,
)
from plait.domain.values import ItemId, Timing
from plait.ports import RecallStore, View
from plait.retrieval import explain
from plait.retrieval.packing import context_block
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.query.skip import transactional
from plait.retrieval.query.strategy import Kind, Strategy
from plait.retrieval.ranking.feedback import check
from plait.retrieval.receipt import digest
from plait.retrieval.replay import replay_of_receipt, store_receipt
from plait.retrieval.runner import plan, run, without_model
from plait.retrieval.search_context import Degraded, Deps, SearchContext, Snapshot, Stage
from plait.retrieval.stages import STAGES


@dataclass(frozen=True, slots=True)
class RecallAnswer:
    """`recall_id` None: no receipt was stored. `block.silence`: why the context is empty. `replay_of`: the recall that
    this repeats; `same`: whether the answer is equal."""

    block: Block
    view: View
    kind: Kind
    recall_id: RecallId | None = None
    impact: Impact = field(default_factory=Impact)
    why_not: Mapping[ItemId, Dropped] | None = None
    degraded: tuple[Degraded, ...] = ()
    timings: tuple[Timing, ...] = ()
    trail: tuple[Snapshot, ...] = ()  # the candidates stage by stage, if the query has `explain`
    replay_of: RecallId | None = None
    same: bool = False


class RecallService:
    """Answers recalls over one `Deps`, with the same tuple of stages as search."""

    def __init__(self, deps: Deps, stages: Sequence[Stage] = STAGES) -> None:
        self._deps = deps
        self._stages = tuple(stages)

    async def recall(self, query: SearchQuery, options: PackingOptions) -> RecallAnswer:
        """A context for `query` within its budget; stores a receipt if `options.receipt`.

        Raises: as `SearchService.search`.
        """
        settings, started = self._deps.settings, self._deps.now()
        ctx = SearchContext(
            query=query,
            analysis=analyse(query),
            k=query.k or self._deps.recall.items,
            fusion=query.fusion or settings.fusion,
            deadline=query.deadline or Deadline.after(settings.timeout_s),
            options=options,
        )
        stages = plan(query.mode, self._stages, query.off)
        causes = None
        if not ctx.analysis.attached and transactional(ctx.analysis.text):
            ctx = _skipped(ctx, self._deps)
            causes = {id_: Dropped("strategy", Kind.TRANSACTIONAL) for id_ in query.why_not}
        else:
            ctx = await run(ctx, self._deps, stages)
            if query.why_not:
                causes = await explain.why_not(ctx, self._deps)
        assert ctx.block is not None
        stored = await store_receipt(ctx, self._deps, started)
        return RecallAnswer(
            ctx.block,
            ctx.at,
            ctx.strategy.kind,
            stored.id,
            impact=ctx.impact,
            why_not=causes,
            degraded=(*ctx.degraded, *without_model(query.mode, self._deps), *stored.degraded),
            timings=ctx.timings,
            trail=ctx.trail,
        )

    async def replay(
        self,
        tenant: str,
        id_: RecallId,
        *,
        explain: bool = False,
        why_not: Sequence[ItemId] = (),
    ) -> RecallAnswer:
        """Repeat a recall as of the times it was answered at; `same` tells whether the answer is equal. It may differ
        if the first was `degraded`, or if something has been forgotten since.

        Raises: RecallUnknown, and HistoryGone if the code of that time is no longer stored.
        """
        receipt = await self._receipts.receipt(tenant, id_)
        repeated = replay_of_receipt(receipt, self._deps, explain=explain, why_not=why_not)
        service = RecallService(repeated.deps, self._stages)
        answer = await service.recall(repeated.query, repeated.options)
        same = digest(answer.block) == receipt.digest
        return replace(answer, recall_id=None, replay_of=id_, same=same)

    async def report(self, feedback: Feedback) -> FeedbackReceipt:
        """Record feedback: what became of a recall.

        Raises: InvalidInput, RecallUnknown, RequestIdReused.
        """
        check(feedback)
        return await self._receipts.report(feedback)

    @property
    def _receipts(self) -> RecallStore:
        if self._deps.receipts is None:
            raise NotBuilt(
                "this service stores no receipts of its recalls; give its Deps `receipts`"
            )
        return self._deps.receipts


def _skipped(ctx: SearchContext, deps: Deps) -> SearchContext:
    """An empty block for a greeting or the like; no store or model is called."""
    view = View((), "", 0, ctx.query.where.tenant, recorded=ctx.query.where.as_of.recorded)
    ctx = replace(ctx, view=view, strategy=Strategy(Kind.TRANSACTIONAL))
    return context_block.block(ctx, [], {}, {}, {}, deps.recall)
