"""What of something forgotten the server's files still hold, counted by reading them.

PostgreSQL marks rows as dead and reuses their place; their bytes stay in the files of tables and indexes until
those are written anew (`reclaim`), and in the write-ahead log until that is overwritten.
"""

from __future__ import annotations

import asyncio
import mmap
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import UUID

from psycopg import errors as pg

from plait.domain.retention import Held
from vector.connection.pool import Connection

# Bytes that are looked for in each file: words that nothing else says, and ids of rows.
MAX_IDS = 24
MAX_BYTES = 4 * 2**30  # of files that are read; of larger databases nothing is said
_LOG = re.compile(r"[0-9A-F]{24}")

SERVER = """
SELECT current_setting('data_directory'), system_identifier::text::numeric % 18446744073709551616
  FROM pg_control_system()
"""
# Of tables, what is kept out of line of them, and the indexes of both.
PATHS = """
WITH tables AS (
    SELECT c.oid, c.reltoastrelid FROM pg_class c
     WHERE c.relnamespace = 'plait'::regnamespace AND c.relname = ANY(%(tables)s)),
heaps AS (SELECT oid FROM tables UNION SELECT reltoastrelid FROM tables WHERE reltoastrelid <> 0)
SELECT pg_relation_filepath(oid) FROM heaps
 UNION SELECT pg_relation_filepath(i.indexrelid) FROM pg_index i JOIN heaps h ON h.oid = i.indrelid
"""


def marks(ids: Sequence[UUID], words: Sequence[str]) -> tuple[bytes, ...]:
    """What tells that a file holds something of what was forgotten; ids evenly chosen, where they are many."""
    once = list(dict.fromkeys(id_.bytes for id_ in ids))
    return (*(word.encode() for word in words), *once[:: max(1, -(-len(once) // MAX_IDS))])


async def held(conn: Connection, tables: Sequence[str], looked_for: Sequence[bytes]) -> Held | None:
    """How many files hold one of `looked_for`; None where the server's files are not this machine's, can't be
    read, or are too large to. What waits in its memory is written out first."""
    try:
        cursor = await conn.execute(SERVER)
        folder, identity = await cursor.fetchone() or ("", 0)
        await conn.execute("CHECKPOINT")
    except pg.InsufficientPrivilege:
        return None
    cursor = await conn.execute(PATHS, {"tables": list(tables)})
    paths = [path for (path,) in await cursor.fetchall() if path]
    return await asyncio.to_thread(_count, Path(folder), int(identity), paths, looked_for)


def _count(
    folder: Path, identity: int, paths: Sequence[str], looked_for: Sequence[bytes]
) -> Held | None:
    try:
        # A folder of this name may be here as well, and belong to another server.
        with (folder / "global" / "pg_control").open("rb") as control:
            if int.from_bytes(control.read(8), sys.byteorder) != identity:
                return None
        tables = [file for path in paths for file in _segments(folder / path)]
        log = [f for f in (folder / "pg_wal").iterdir() if _LOG.fullmatch(f.name)]
        if sum(file.stat().st_size for file in (*tables, *log)) > MAX_BYTES:
            return None
        return Held(_holding(tables, looked_for), _holding(log, looked_for))
    except OSError:
        return None


def _segments(first: Path) -> Iterable[Path]:
    """A relation's files: a new one begins after each gigabyte."""
    file, n = first, 0
    while file.exists():
        yield file
        n += 1
        file = first.with_name(f"{first.name}.{n}")


def _holding(files: Iterable[Path], looked_for: Sequence[bytes]) -> int:
    return sum(_holds(file, looked_for) for file in files)


def _holds(file: Path, looked_for: Sequence[bytes]) -> bool:
    if not file.stat().st_size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as body:
        return any(body.find(one) >= 0 for one in looked_for)
