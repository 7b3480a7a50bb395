"""Keeping the segments of agents' text few: merged in the background as they become many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from plait.domain.errors import PlaitError
from vector.connection import locks
from vector.connection.pool import Database
from vector.index import segments
from vector.index.repositories import drop_segments

logger = logging.getLogger(__name__)

# A search reads every segment: at most this many more than merging leaves before it is merged again.
MERGE_EVERY = 8


class SegmentMerger:
    """Shared by those who add segments, so that one process merges one repository once at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._unmerged: dict[tuple[int, str], int] = {}
        self._merging: set[asyncio.Task[None]] = set()

    def add(self, grown: Sequence[tuple[int, str]]) -> None:
        """A segment more in each of these (repository, collection): merge where they may have become many,
        without waiting for it. The first one of a process does, since others may have left many."""
        due: dict[int, list[str]] = {}
        for place in grown:
            since = self._unmerged.get(place, MERGE_EVERY) + 1
            self._unmerged[place] = since
            if since >= MERGE_EVERY and not self._merging:
                self._unmerged[place] = 0
                due.setdefault(place[0], []).append(place[1])
        if due:
            task = asyncio.create_task(self._merge_all(due))
            self._merging.add(task)
            task.add_done_callback(self._merging.discard)

    async def finished(self) -> None:
        """Wait for the merging that has begun."""
        while tasks := set(self._merging):
            await asyncio.wait(tasks)
            self._merging -= tasks

    async def _merge_all(self, due: dict[int, list[str]]) -> None:
        for repo_id, collections in due.items():
            await self._merge(repo_id, collections)

    async def _merge(self, repo_id: int, collections: Sequence[str]) -> None:
        """Merge what is small. A failure is logged: the rows are stored, a later one tries again."""
        try:
            async with self._db.transaction() as conn:
                cursor = await conn.execute(
                    "SELECT pg_try_advisory_xact_lock(%s, %s)", (locks.MERGING, repo_id)
                )
                row = await cursor.fetchone()
                if not row or not row[0]:
                    self._unmerged.update({(repo_id, c): MERGE_EVERY for c in collections})
                    return
                for collection in collections:
                    await segments.merge_small(conn, repo_id, collection)
                await drop_segments(
                    conn,
                    "repo_id = %(repo)s AND replaced_at < now() - interval '10 minutes'",
                    {"repo": repo_id},
                )
        except PlaitError as exc:
            logger.warning(
                "merging segments failed", extra={"reason": exc.reason, "error": str(exc)}
            )
