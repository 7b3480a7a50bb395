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
        for place in grown:
            self._unmerged[place] = self._unmerged.get(place, MERGE_EVERY) + 1
        if not self._merging and any(self._unmerged[place] >= MERGE_EVERY for place in grown):
            task = asyncio.create_task(self._merge_due())
            self._merging.add(task)
            task.add_done_callback(self._merging.discard)

    async def finished(self) -> None:
        """Wait for the merging that has begun."""
        while tasks := set(self._merging):
            await asyncio.wait(tasks)
            self._merging -= tasks

    async def _merge_due(self) -> None:
        """Merge until no place has grown enough, counting what grows meanwhile: else what a burst of writes leaves
        would stay until the next one. A place where it failed, or that another process merges, waits for its
        next segment."""
        tried: set[tuple[int, str]] = set()
        while due := [p for p, n in self._unmerged.items() if n >= MERGE_EVERY and p not in tried]:
            for place in due:
                self._unmerged[place] = 0
                if not await self._merge(*place):
                    self._unmerged[place] = MERGE_EVERY
                    tried.add(place)

    async def _merge(self, repo_id: int, collection: str) -> bool:
        """Merge what is small, one transaction a step, so that a process that is killed loses one. False: another
        process does, or it failed, which is logged: the rows are stored, a later one tries again."""
        try:
            more = True
            while more:
                async with self._db.transaction() as conn:
                    cursor = await conn.execute(
                        "SELECT pg_try_advisory_xact_lock(%s, %s)", (locks.MERGING, repo_id)
                    )
                    row = await cursor.fetchone()
                    if not row or not row[0]:
                        return False
                    # A step may sort millions of postings, which no caller waits for.
                    await conn.execute("SET LOCAL statement_timeout = 0")
                    more = await segments.merge_small(conn, repo_id, collection)
                    await drop_segments(
                        conn,
                        "repo_id = %(repo)s AND replaced_at < now() - interval '10 minutes'",
                        {"repo": repo_id},
                    )
        except PlaitError as exc:
            logger.warning(
                "merging segments failed", extra={"reason": exc.reason, "error": str(exc)}
            )
            return False
        return True
