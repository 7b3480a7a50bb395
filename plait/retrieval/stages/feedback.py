"""The factor of feedback on earlier recalls of the same items."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.recall import Evidence
from plait.retrieval.ranking.feedback import factor
from plait.retrieval.search_context import Deps, SearchContext


async def feedback(ctx: SearchContext, deps: Deps) -> SearchContext:
    """A prior within ± `recall.feedback_bound`, from what was reported by the time of the view."""
    bound = deps.recall.feedback_bound
    if deps.receipts is None or not ctx.order or not bound:
        return ctx
    found = await deps.receipts.evidence(ctx.at, ctx.order)
    if not found:
        return ctx
    factors = {id_: factor(evidence, bound) for id_, evidence in found.items()}
    reasons = dict(ctx.reasons)
    for id_, evidence in found.items():
        if reason := _reason(evidence):
            reasons[id_] = (*reasons.get(id_, ()), reason)
    return replace(ctx, factors={**ctx.factors, "feedback": factors}, reasons=reasons)


def _reason(evidence: Evidence) -> str:
    """In words, from a net evidence of half a verdict on."""
    if evidence.helped - evidence.harmed >= 0.5:
        return "helped before"
    if evidence.harmed - evidence.helped >= 0.5:
        return "misled before"
    return ""
