"""Session advisory locks: held by a connection, so the server drops them when the process dies."""

from __future__ import annotations

from typing import Final

from plait.domain.errors import StoreUnavailable
from vector.errors import translated
from vector.pool import Connection

# First key of the two-key advisory locks; the second is the repository's id.
INDEXING: Final = 0x504C0001
PROJECTING: Final = 0x504C0002
MERGING: Final = 0x504C0003
# Shared by who keeps a receipt (vector/sql/0005_recall.sql has the number too), alone `forget`'s.
RECALLING: Final = 0x504C0004


async def try_lock(conn: Connection, space: int, repo_id: int) -> bool:
    """Take the lock if nobody else has it. The same connection may take it twice: keep count outside."""
    with translated():
        cursor = await conn.execute("SELECT pg_try_advisory_lock(%s, %s)", (space, repo_id))
        row = await cursor.fetchone()
        return bool(row and row[0])


async def unlock(conn: Connection, space: int, repo_id: int) -> None:
    with translated():
        await conn.execute("SELECT pg_advisory_unlock(%s, %s)", (space, repo_id))


async def release(conn: Connection, space: int, repo_id: int) -> None:
    """Give the lock back, whatever state its connection is in, and close that.

    Closing alone would do, but the server would learn of it a moment later.
    """
    try:
        if not conn.closed:
            await unlock(conn, space, repo_id)
    except StoreUnavailable:
        pass  # the connection is lost, and the lock with it
    finally:
        await conn.close()


async def release_all(conn: Connection) -> None:
    """As `release`, of every lock that the connection holds."""
    try:
        if not conn.closed:
            with translated():
                await conn.execute("SELECT pg_advisory_unlock_all()")
    except StoreUnavailable:
        pass
    finally:
        await conn.close()
