"""PostgreSQL's write-ahead log after a large write: what a checkpoint covers is removed from the disk."""

from __future__ import annotations

from vector.connection.pool import Database

# A checkpoint costs some writes and fsyncs; below this much log it is not worth them.
WORTH_BYTES = 64 * 2**20

SINCE = "SELECT pg_current_wal_lsn() - (pg_control_checkpoint()).redo_lsn"


async def shorten(db: Database, worth: int = WORTH_BYTES) -> int:
    """Bytes of log that a checkpoint, made now, has covered; 0 for less than `worth`. Durability is as before:
    what a checkpoint covers is in the tables' files. Raises: StoreUnavailable."""
    ((written,),) = await db.rows(SINCE, {})
    if written < worth:
        return 0
    conn = await db.dedicated()
    try:
        await conn.execute("SET statement_timeout = 0")
        await conn.execute("CHECKPOINT")
    finally:
        await conn.close()
    return int(written)
