"""What compaction closed is found nonetheless: which closed versions a search still sees, and since when.

A closed version of a memory has `kept_until` when compaction closed it: the end of times, or the time at
which the closing was undone. As of a recorded time in between it is seen, as compacted; before the closing it
is seen as what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from vector.connection.pool import Connection

FOREVER = datetime(9999, 12, 29, tzinfo=UTC)

# Of `memories i`, now and as of the bound time `known`.
SEEN_NOW = "(i.superseded_at IS NULL OR i.kept_until > now())"
IS_COMPACTED_NOW = "i.superseded_at IS NOT NULL"

# A duplicate with the very words of the one that stays is found by that one.
KEEP = """
UPDATE memories i SET kept_until = %(until)s
  FROM unnest(%(entries)s::uuid[], %(into)s::uuid[]) AS c (entry, into_entry)
 WHERE i.repo_id = %(repo)s AND i.entry_id = c.entry AND i.superseded_at = %(at)s
   AND NOT EXISTS (SELECT FROM memories k WHERE k.entry_id = c.into_entry AND k.repo_id = i.repo_id
                      AND k.content_hash = i.content_hash)
"""
END = """
UPDATE memories SET kept_until = %(at)s
 WHERE repo_id = %(repo)s AND id = ANY(%(rows)s) AND kept_until = %(until)s
"""


def seen_as_of(known: str) -> str:
    """Which versions are seen as of the recorded time `known`, a bound parameter's place."""
    return f"(i.superseded_at IS NULL OR i.superseded_at > {known} OR i.kept_until > {known})"


def is_compacted(known: str | None) -> str:
    """Whether a version that is seen is one that compaction closed by then."""
    if known is None:
        return IS_COMPACTED_NOW
    return f"(i.superseded_at IS NOT NULL AND i.superseded_at <= {known})"


async def keep(
    conn: Connection,
    repo_id: int,
    closed: Sequence[tuple[UUID, UUID]],
    at: datetime,
) -> None:
    """`closed`: entries that a compaction closed at `at`, each with what stands for it."""
    given = {
        "repo": repo_id,
        "at": at,
        "until": FOREVER,
        "entries": [entry for entry, _ in closed],
        "into": [into for _, into in closed],
    }
    await conn.execute(KEEP, given)


async def end(conn: Connection, repo_id: int, rows: Sequence[UUID], at: datetime) -> None:
    """The closing of these versions was undone at `at`."""
    given = {"repo": repo_id, "rows": list(rows), "at": at, "until": FOREVER}
    await conn.execute(END, given)
