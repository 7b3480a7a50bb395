"""The recorded time: one clock a repository, kept in the database."""

from __future__ import annotations

from datetime import datetime

from vector.pool import Connection

# The row stays locked to the end of the transaction, so that times grow in the order of commits; a
# machine clock that jumps back is followed by steps of a microsecond until it has caught up.
TICK = """
INSERT INTO repo_clock AS c (repo_id, at) VALUES (%s, clock_timestamp())
    ON CONFLICT (repo_id) DO UPDATE
   SET at = GREATEST(clock_timestamp(), c.at + interval '1 microsecond')
RETURNING at
"""


async def tick(conn: Connection, repo_id: int) -> datetime:
    """The recorded time of the transaction that `conn` is in; call it once, as late as possible:
    other writers of this repository's memory wait from here on."""
    cursor = await conn.execute(TICK, (repo_id,))
    row = await cursor.fetchone()
    assert row is not None
    at: datetime = row[0]
    return at
