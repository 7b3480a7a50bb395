"""The primary store: receipts of recalls and feedback on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from plait.domain.recall import Evidence, Feedback, FeedbackReceipt, RecallId, Receipt
from plait.domain.values import ItemId
from plait.ports.search import View


class RecallStore(Protocol):
    """Receipts and feedback of one tenant at a time; row security holds each call to its tenant."""

    async def keep_receipt(self, receipt: Receipt) -> bool:
        """One short transaction; a receipt is stored for `recall.keep_s`. False: not stored, because
        something that it may contain was forgotten meanwhile, or it read no repository."""
        ...

    async def receipt(self, tenant: str, id_: RecallId) -> Receipt:
        """Raises: RecallUnknown, for one that never was, is another tenant's, or was collected."""
        ...

    async def shown(
        self, tenant: str, repos: Sequence[str], session_key: str, since: datetime
    ) -> frozenset[ItemId]:
        """What recalls of this session put into a context since then."""
        ...

    async def report(self, feedback: Feedback) -> FeedbackReceipt:
        """Attribute feedback to the items of its recall, in one transaction, with its VALIDATED_BY links
        and their outbox row. Safe to repeat.

        Raises: RecallUnknown, RequestIdReused.
        """
        ...

    async def evidence(self, view: View, ids: Sequence[ItemId]) -> Mapping[ItemId, Evidence]:
        """What feedback recorded by the view's time says of these items; those without any left out."""
        ...

    async def collect(self) -> Mapping[str, int]:
        """Remove receipts older than `recall.keep_s` with their text feedback, and feedback whose weight has
        decayed; rows removed, by table."""
        ...
