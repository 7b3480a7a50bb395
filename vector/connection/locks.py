"""Session advisory locks: held by a connection, so the server drops them when the process dies."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from psycopg.errors import LockNotAvailable

from plait.domain.errors import PlaitError
from vector.connection.errors import translated
from vector.connection.pool import Connection

# First key of the two-key advisory locks; the second is the repository's id.
INDEXING: Final = 0x504C0001
PROJECTING: Final = 0x504C0002
MERGING: Final = 0x504C0003
# Shared by who keeps a receipt (vector/sql/0005_recall.sql has the number too), alone `forget`'s.
RECALLING: Final = 0x504C0004
# Who makes a repository's vectors.
EMBEDDING: Final = 0x504C0005
# Who builds the index of agents' vectors; of all repositories, so with 0 for the second key.
INDEXING_VECTORS: Final = 0x504C0006

# How long a server is waited for that is told to let go of what ends with its connection anyway.
RELEASE_S = 5.0


async def try_lock(conn: Connection, space: int, repo_id: int) -> bool:
    """Take the lock if nobody else has it. The same connection may take it twice: keep count outside."""
    with translated():
        cursor = await conn.execute("SELECT pg_try_advisory_lock(%s, %s)", (space, repo_id))
        row = await cursor.fetchone()
        return bool(row and row[0])


async def lock_within(conn: Connection, space: int, repo_id: int, wait_s: float) -> bool:
    """Take the lock, after those who came before; False when it isn't free within `wait_s` seconds."""
    before = await (await conn.execute("SHOW statement_timeout")).fetchone()
    assert before is not None
    settings = (
        "SELECT set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)"
    )
    await conn.execute(settings, (f"{max(1, round(wait_s * 1000))}ms", "0"))
    try:
        await conn.execute("SELECT pg_advisory_lock(%s, %s)", (space, repo_id))
    except LockNotAvailable:
        return False
    finally:
        if not conn.closed:
            await conn.execute(settings, ("0", before[0]))
    return True


async def unlock(conn: Connection, space: int, repo_id: int) -> None:
    with translated():
        await conn.execute("SELECT pg_advisory_unlock(%s, %s)", (space, repo_id))


async def release(conn: Connection, space: int, repo_id: int) -> None:
    """Give the lock back, whatever state its connection is in, and close that.

    Closing alone would do, but the server would learn of it a moment later.
    """
    await _let_go(conn, unlock(conn, space, repo_id))


async def release_all(conn: Connection) -> None:
    """As `release`, of every lock that the connection holds."""
    await _let_go(conn, _unlock_all(conn))


async def _unlock_all(conn: Connection) -> None:
    with translated():
        await conn.execute("SELECT pg_advisory_unlock_all()")


async def _let_go(conn: Connection, unlocking: Coroutine[Any, Any, None]) -> None:
    try:
        # A server that answers nothing holds nobody up who leaves: what it is told next is the end.
        async with asyncio.timeout(RELEASE_S):
            await unlocking
    except (PlaitError, TimeoutError):
        pass  # the connection is lost, or is so below, and the locks with it
    finally:
        await conn.close()
