"""HNSW indexes of agents' items, which grow a few at a time while the service runs: built beside the writes.

An index run builds that of code at its end, in one transaction that writers wait for. Nobody may wait for this
one, and no run comes to an end: it is built concurrently as soon as a collection is large enough, and each write adds
to it from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from plait.domain.values import Collection
from vector.connection import locks
from vector.connection.errors import translated
from vector.connection.pool import Connection, Database

logger = logging.getLogger(__name__)

# Below this many items a collection is compared one by one: 5,000 vectors of 384 dimensions take 2 ms.
INDEX_FROM_ROWS = 5_000
COLLECTIONS = tuple(c.value for c in Collection if c is not Collection.FILES)

# What a process that died while it built left behind is an index that is not valid.
_IS_THERE = "SELECT FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid"
# Whether or not they have a vector yet: what waits is added as it gets one, and looked for by the index at once.
_ROWS = "SELECT count(*) FROM (SELECT FROM {table} LIMIT %(rows)s) few"


async def build_missing(db: Database, dim: int) -> None:
    """Build the index of each collection that is large enough and has none. One process at a time does; another
    leaves it to that one. Raises: as `Database.dedicated`."""
    if not await _missing(db, dim):
        return
    conn = await db.dedicated()
    try:
        if not await locks.try_lock(conn, locks.INDEXING_VECTORS, 0):
            return
        with translated():
            # Searches and writes go on meanwhile, and want the other processors.
            await conn.execute(
                "SET statement_timeout = 0; SET max_parallel_maintenance_workers = 0"
            )
            for table in await _missing(db, dim):
                await _build(conn, table, dim)
    finally:
        await locks.release_all(conn)


async def _missing(db: Database, dim: int) -> Sequence[str]:
    """The collections that are large enough for an index and have none that is valid."""
    found = []
    for table in COLLECTIONS:
        if await db.rows(_IS_THERE, {"name": f"plait.{_name(table, dim)}"}):
            continue
        ((rows,),) = await db.rows(_ROWS.format(table=table), {"rows": INDEX_FROM_ROWS})
        if rows >= INDEX_FROM_ROWS:
            found.append(table)
    return found


async def _build(conn: Connection, table: str, dim: int) -> None:
    name = _name(table, dim)
    logger.info("building an HNSW index", extra={"table": table, "dim": dim})
    await conn.execute(f"SET maintenance_work_mem = '{await build_mb(conn, table, dim)}MB'")
    await conn.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    await conn.execute(
        f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw"
        f" ((embedding::halfvec({dim})) halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)"
    )
    await conn.execute(f"ANALYZE {table}")


async def build_mb(conn: Connection, table: str, dim: int) -> int:
    """Megabytes for the graph of `table`'s vectors, 512 to 4,096: when it outgrows them, building falls
    back to one write a vector. 100,000 of 384 dimensions take some 150."""
    cursor = await conn.execute(f"SELECT count(embedding) FROM {table}")
    row = await cursor.fetchone()
    assert row is not None
    return int(min(4096, max(512, row[0] * (2 * dim + 900) // 2**20)))


def _name(table: str, dim: int) -> str:
    return f"{table}_embedding_{dim}"
