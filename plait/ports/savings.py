"""The primary store: the cost of look-ups in sessions with stored transcripts and receipts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from plait.domain.savings import SessionCounts


class SavingsStore(Protocol):
    """Sums of one tenant at a time; row security holds each call to its tenant."""

    async def session_counts(
        self,
        tenant: str,
        repos: Sequence[str],
        *,
        session_key: str = "",
        since: datetime | None = None,
        limit: int,
    ) -> list[SessionCounts]:
        """Each session of these repositories (qualified names; none: all of the tenant's) that has a
        transcript or a receipt and began at `since` or later, the `limit` that ended last, newest first.

        A receipt belongs to the session of its key. One whose key has no transcript is left out where
        it was given while a session of the same repository, whose transcript shows answers of Plait's,
        went on: it is one of them. Episodes stored twice are stored once, and counted so.
        """
        ...
