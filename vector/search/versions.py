"""Versions of repositories' code: has anything that a search of it reads changed since?

Every transaction that changes what a search of published code finds (a publish, a removal, vectors that fill in)
changes the repository's row too, for it holds the counts. So the row's own version, which PostgreSQL keeps for each
row, is the version of the code; it costs no column, and no writer can forget it. Two counts are part of it: after a
crash that took a transaction back, the next one may get the same number and place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vector.connection.pool import Database

# Of `repository r` and `embedding_space s`: which transaction wrote the row, and where. NULL without vectors.
COLUMNS = (
    "r.xmin::text || r.ctid::text || r.published || '/' || r.embedded, s.xmin::text || s.ctid::text"
)

_READ = f"""
SELECT r.name, {COLUMNS}, now() FROM repository r LEFT JOIN embedding_space s ON s.filled
 WHERE r.name = ANY(%(repos)s)
"""


@dataclass(frozen=True, slots=True)
class Read:
    """Versions by repository, and the database's time when they were read."""

    by_name: Mapping[str, str]
    now: datetime | None

    def of(self, repos: Sequence[str]) -> str:
        """One version for `repos`."""
        names = sorted(set(repos))
        return joined([(name, self.by_name[name]) for name in names if name in self.by_name])


class Versions:
    """Reads versions for all who ask at once in one statement: who asks while one is under way is answered by the
    next, so a version is never older than the question."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked: set[str] = set()
        self._next: asyncio.Future[Read] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def of(self, repos: Sequence[str]) -> str:
        """As `CodeVersions.version`. Raises: StoreUnavailable."""
        return (await self.read(repos)).of(repos)

    async def read(self, repos: Sequence[str]) -> Read:
        """The versions of `repos`, and maybe of others. Raises: StoreUnavailable."""
        self._asked.update(repos)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        coming = self._next
        if self._reading is None:
            self._reading = asyncio.create_task(self._answer())
        return await asyncio.shield(coming)

    async def _answer(self) -> None:
        """Answer those who ask, one statement after the other, until nobody does."""
        try:
            while self._next is not None:
                repos, answer = sorted(self._asked), self._next
                self._asked, self._next = set(), None
                try:
                    answer.set_result(_read(await self._db.rows(_READ, {"repos": repos})))
                except BaseException as exc:
                    answer.set_exception(exc)
                    answer.exception()  # retrieved: those who asked may all have gone
                    if not isinstance(exc, Exception):
                        raise
        finally:
            self._reading = None

    async def close(self) -> None:
        """End a read that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


def _read(rows: Sequence[tuple[Any, ...]]) -> Read:
    by_name = {row[0]: of_row(row[1], row[2]) for row in rows}
    return Read(by_name, rows[0][3] if rows else None)


def of_row(repository: str, space: str | None) -> str:
    """From a row's `COLUMNS`."""
    return f"{repository} {space or ''}"


def joined(versions: Sequence[tuple[str, str]]) -> str:
    """One version for several repositories, given as `(name, version)` in the order of their names."""
    return "\n".join(f"{name} {version}" for name, version in versions)
