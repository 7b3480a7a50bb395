"""What follows a recall: its receipt, and how the same is asked once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from plait.domain.errors import PlaitError
from plait.domain.memory import AsOf
from plait.domain.recall import (
    Evidence,
    Feedback,
    FeedbackReceipt,
    PackingOptions,
    RecallId,
    Receipt,
)
from plait.domain.values import Filter, ItemId
from plait.ports import RecallStore, View
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.receipt import decode, receipt_of
from plait.retrieval.search_context import Degraded, Deps, SearchContext


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a receipt: its id, or why there is none."""

    id: RecallId | None = None
    degraded: tuple[Degraded, ...] = ()


async def keep(ctx: SearchContext, deps: Deps, started: datetime) -> Kept:
    """Write the receipt of an answered recall, before its id is given away. An answer is worth having
    without one too: what fails is named in `degraded`."""
    if deps.receipts is None or ctx.options is None or not ctx.options.receipt:
        return Kept()
    receipt = receipt_of(ctx, started)
    if not receipt.repos:
        return Kept()  # nothing was read, so there is nothing to say of it
    try:
        if await deps.receipts.keep_receipt(receipt):
            return Kept(receipt.id)
    except PlaitError as exc:
        return Kept(degraded=(Degraded("receipt", exc.reason),))
    return Kept(degraded=(Degraded("receipt", "forgetting"),))


@dataclass(frozen=True, slots=True)
class Again:
    """How a recall is asked again: the same request as of its times, over stores that show what they
    showed then."""

    query: SearchQuery
    options: PackingOptions
    deps: Deps


def again(
    receipt: Receipt, deps: Deps, *, explain: bool = False, why_not: Sequence[ItemId] = ()
) -> Again:
    """`explain` and `why_not` as a query has them."""
    query, options = decode(receipt.request)
    where = replace(query.where, tenant=receipt.tenant, as_of=_as_of(query.where, receipt.at))
    assert deps.receipts is not None
    then = replace(deps, receipts=_Then(deps.receipts, receipt), now=lambda: receipt.at)
    query = replace(query, where=where, explain=explain, why_not=tuple(why_not))
    return Again(query, replace(options, receipt=False), then)


def _as_of(where: Filter, at: datetime) -> AsOf:
    """The times that were asked for, `at` where none was."""
    return AsOf(where.as_of.valid or at, where.as_of.recorded or at)


class _Then:
    """A `RecallStore` as one recall found it: its session had been shown what the receipt says, and
    nothing is written."""

    def __init__(self, store: RecallStore, receipt: Receipt) -> None:
        self._store = store
        self._receipt = receipt

    async def keep_receipt(self, receipt: Receipt) -> bool:
        return False

    async def receipt(self, tenant: str, id_: RecallId) -> Receipt:
        return await self._store.receipt(tenant, id_)

    async def shown(
        self, tenant: str, repos: Sequence[str], session_key: str, since: datetime
    ) -> frozenset[ItemId]:
        return frozenset(self._receipt.shown)

    async def report(self, feedback: Feedback) -> FeedbackReceipt:
        raise RuntimeError("a replay writes nothing")

    async def evidence(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, Evidence]:
        return await self._store.evidence(view, ids)

    async def collect(self) -> Mapping[str, int]:
        raise RuntimeError("a replay writes nothing")
