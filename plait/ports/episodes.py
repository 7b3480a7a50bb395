"""The truth: agents' runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from plait.domain.errors import RequestIdReused
from plait.domain.values import (
    Episode,
    EpisodeReceipt,
)


class EpisodeStore(Protocol):
    async def append(self, episode: Episode) -> EpisodeReceipt:
        """Store an episode, its items, its outbox row and its answer in one transaction.

        Raises: RequestIdReused, when the request id was stored with another body hash.
        """
        ...

    async def append_many(
        self, episodes: Sequence[Episode]
    ) -> list[EpisodeReceipt | RequestIdReused]:
        """As `append` for each, in that order, up to 500 items a transaction. One that reuses a
        request id has its error in its place; the others are stored."""
        ...
