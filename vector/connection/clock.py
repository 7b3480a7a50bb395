"""The recorded time: one clock a repository, kept in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from vector.connection.pool import Connection, Scoped

# The row stays locked to the end of the transaction, so that times grow in the order of commits; a
# machine clock that jumps back is followed by steps of a microsecond until it has caught up.
TICK = """
INSERT INTO repo_clock AS c (repo_id, at) VALUES (%s, clock_timestamp())
    ON CONFLICT (repo_id) DO UPDATE
   SET at = GREATEST(clock_timestamp(), c.at + interval '1 microsecond')
RETURNING at
"""

# Who is writing ends first, and who writes later gets a later time, whatever the machine's clock does.
# A time that is still to come can only be held up to now.
_HOLD = """
UPDATE repo_clock SET at = GREATEST(at, LEAST(%(recorded)s, clock_timestamp()))
 WHERE repo_id IN (SELECT c.repo_id FROM repo_clock c JOIN repository r ON r.id = c.repo_id
                    WHERE r.tenant = %(tenant)s AND (%(every)s OR r.name = ANY(%(names)s))
                      AND c.at < LEAST(%(recorded)s, clock_timestamp())
                    ORDER BY c.repo_id FOR UPDATE OF c)
RETURNING repo_id
"""


async def hold(app: Scoped, tenant: str, repos: Sequence[str], recorded: datetime | None) -> None:
    """See to it that an answer as of `recorded` is final: call it before the read. `repos`: names;
    empty for all of the tenant's."""
    if recorded is not None:
        given = {"tenant": tenant, "names": list(repos), "every": not repos, "recorded": recorded}
        await app.rows(_HOLD, given, tenant=tenant)


async def tick(conn: Connection, repo_id: int) -> datetime:
    """The recorded time of the transaction that `conn` is in; call it once, as late as possible:
    other writers of this repository's memory wait from here on."""
    cursor = await conn.execute(TICK, (repo_id,))
    row = await cursor.fetchone()
    assert row is not None
    at: datetime = row[0]
    return at
