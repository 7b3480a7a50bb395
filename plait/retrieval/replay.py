"""After a recall: store its receipt, and replay it from there."""

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
class StoredReceipt:
    """The id of a stored receipt, or why there is none."""

    id: RecallId | None = None
    degraded: tuple[Degraded, ...] = ()


async def store_receipt(ctx: SearchContext, deps: Deps, started: datetime) -> StoredReceipt:
    """Store the receipt of an answered recall before its id is returned. A failure does not fail the recall; it is
    named in `degraded`."""
    if deps.receipts is None or ctx.options is None or not ctx.options.receipt:
        return StoredReceipt()
    receipt = receipt_of(ctx, started)
    if not receipt.repos:
        return StoredReceipt()  # no repository was read, so no feedback can refer to it
    try:
        if await deps.receipts.keep_receipt(receipt):
            return StoredReceipt(receipt.id)
    except PlaitError as exc:
        return StoredReceipt(degraded=(Degraded("receipt", exc.reason),))
    return StoredReceipt(degraded=(Degraded("receipt", "forgetting"),))


@dataclass(frozen=True, slots=True)
class Replay:
    """A recall to be repeated: the same request as of its times, with dependencies that answer as they did then."""

    query: SearchQuery
    options: PackingOptions
    deps: Deps


def replay_of_receipt(
    receipt: Receipt, deps: Deps, *, explain: bool = False, why_not: Sequence[ItemId] = ()
) -> Replay:
    """The replay of `receipt`. `explain` and `why_not`: as in `SearchQuery`."""
    query, options = decode(receipt.request)
    where = replace(query.where, tenant=receipt.tenant, as_of=_as_of(query.where, receipt.at))
    assert deps.receipts is not None
    then = replace(deps, receipts=_AsOfRecall(deps.receipts, receipt), now=lambda: receipt.at)
    query = replace(query, where=where, explain=explain, why_not=tuple(why_not))
    return Replay(query, replace(options, receipt=False), then)


def _as_of(where: Filter, at: datetime) -> AsOf:
    """The times of the request, `at` where it gave none."""
    return AsOf(where.as_of.valid or at, where.as_of.recorded or at)


class _AsOfRecall:
    """A `RecallStore` in the state at one recall: `shown` comes from its receipt, and nothing is written."""

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
