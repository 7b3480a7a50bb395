"""VectorQueue: vectors that fill in behind a published revision."""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from operator import itemgetter

import numpy as np
from psycopg.errors import DiskFull, OutOfMemory

from plait.domain import failpoint
from plait.domain.errors import EmbeddingModelMismatch, InvalidInput, RepositoryNotIndexed
from plait.domain.values import Collection, ItemId, embedded_text
from plait.ports import PendingText, Vectors
from vector.connection import locks
from vector.connection.pool import Connection, Database
from vector.index.growing_index import build_mb, build_missing
from vector.index.visible import CHUNKS_OF, chunk, held

logger = logging.getLogger(__name__)

# Below this many vectors a collection is scanned exactly whatever the filter: no index is built.
INDEX_FROM_ROWS = 10_000

# Of code, equal texts once: what much calls, then definitions before tests before prose. It looks at the intervals of
# every chunk, so it is made for thousands of batches at a time. Places are looked up in one object, since the planner
# joins such a list as if it had ten rows.
WAITING = f"""
SELECT id FROM (
    SELECT DISTINCT ON (content_hash) * FROM (
        SELECT f.id, f.content_hash, (%(places)s::jsonb -> f.path ->> f.symbol)::int AS place,
               CASE WHEN f.symbol = '' THEN 3
                    WHEN f.is_test THEN 2 ELSE 1 END AS rank
          FROM files f
         WHERE f.repo_id = (SELECT id FROM repository WHERE name = %(repo)s) AND f.embedding IS NULL
           AND {chunk("f", "(SELECT published FROM repository WHERE name = %(repo)s)")}) lacking
     ORDER BY content_hash, place, rank, id) distinct_texts
 ORDER BY place, rank, id LIMIT %(limit)s
"""

TEXTS = f"""
SELECT f.id, f.content_hash, f.path, f.symbol, f.content, f.context
  FROM files f JOIN repository r ON r.id = f.repo_id
 WHERE f.id = ANY(%(ids)s) AND r.name = %(repo)s AND f.embedding IS NULL AND {chunk("f", "r.published")}
"""

# Of agents' items, which are asked for soon and come before code, oldest first: each collection by its index of
# what waits, so that a round costs what it takes, however much waits behind it.
AGENTS_PENDING = """
SELECT DISTINCT ON (w.content_hash) w.content_hash, w.path, w.symbol, w.content, w.context, w.id FROM (
    {of_each} ORDER BY id LIMIT %(limit)s) w
 ORDER BY w.content_hash, w.id
""".format(
    of_each=" UNION ALL ".join(
        f"""(SELECT i.id, i.content_hash, i.path, i.symbol, i.content, i.context FROM {collection.value} i
              WHERE i.repo_id = (SELECT id FROM repository WHERE name = %(repo)s) AND i.embedding IS NULL
                AND (i.superseded_at IS NULL OR i.kept_until > now())
              ORDER BY i.id LIMIT %(limit)s)"""
        for collection in Collection
        if collection is not Collection.FILES
    )
)

_COUNTED = f"""
    RETURNING i.repo_id, i.collection, i.path, i.rev_from),
counted AS (
    SELECT s.repo_id, count(*) AS n FROM stored s JOIN repository r ON r.id = s.repo_id
     WHERE s.collection = 'files' AND {chunk("s", "r.published")} GROUP BY s.repo_id)
UPDATE repository r SET embedded = embedded + n FROM counted c WHERE r.id = c.repo_id
"""
STORE = f"""
WITH stored AS (
    UPDATE item i SET embedding = v.embedding, embedding_model = %(model)s
      FROM new_vector v
     WHERE i.content_hash = v.content_hash AND i.embedding IS NULL
{_COUNTED}"""
TAKE_OVER = f"""
WITH known AS (
    SELECT DISTINCT ON (o.content_hash) o.content_hash, o.embedding, o.embedding_model
      FROM (SELECT DISTINCT content_hash FROM files WHERE id = ANY(%(ids)s) AND embedding IS NULL) w
      JOIN item o ON o.content_hash = w.content_hash AND o.embedding IS NOT NULL),
stored AS (
    UPDATE item i SET embedding = k.embedding, embedding_model = k.embedding_model
      FROM known k
     WHERE i.content_hash = k.content_hash AND i.embedding IS NULL
{_COUNTED}"""

COVERAGE = """
SELECT embedded, chunks,
       (SELECT count(*) FROM item i WHERE i.repo_id = r.id AND i.collection <> 'files'
           AND i.embedding IS NULL AND (i.superseded_at IS NULL OR i.kept_until > now()))
  FROM repository r WHERE r.name = %(repo)s
"""

RECOUNT = f"""
UPDATE repository r SET embedded =
       (SELECT count(*) FROM file_member m JOIN files f ON {CHUNKS_OF}
         WHERE m.repo_id = r.id AND {held("m", "r.published")} AND f.embedding IS NOT NULL)
 WHERE r.name = %(repo)s
"""


# Dead texts may keep the counts apart for a while after a merge: `finish` counts anew.
WANTING = """
SELECT name FROM repository WHERE vectors_wanted AND published > 0 AND embedded < chunks
 ORDER BY chunks - embedded, name
"""


class Queue:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def ensure_space(self, model: str, dim: int) -> None:
        await self._db.retry(lambda _: self._ensure_space(model, dim))

    async def _ensure_space(self, model: str, dim: int) -> None:
        async with self._db.connection() as conn:
            await conn.execute(
                "INSERT INTO embedding_space (model, dim) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (model, dim),
            )
            cursor = await conn.execute("SELECT model, dim, filled FROM embedding_space")
            row = await cursor.fetchone()
            assert row is not None
            if (row[0], row[1]) == (model, dim):
                return
            if row[2]:
                raise EmbeddingModelMismatch(row[0], row[1], model, dim)
            # Nothing was ever embedded with the recorded model: there is nothing to mix with.
            await conn.execute(
                "UPDATE embedding_space SET model = %s, dim = %s WHERE NOT filled", (model, dim)
            )

    async def pending(self, repo: str, limit: int) -> Sequence[PendingText]:
        rows = await self._db.rows(AGENTS_PENDING, {"repo": repo, "limit": limit}, prepare=False)
        return [_pending(*row[:5]) for row in sorted(rows, key=itemgetter(5))]

    async def waiting(
        self, repo: str, limit: int, called: Sequence[tuple[str, str]] = ()
    ) -> Sequence[ItemId]:
        places: dict[str, dict[str, int]] = {}
        for place, (path, symbol) in enumerate(called):
            if "\0" not in path + symbol:
                places.setdefault(path, {}).setdefault(symbol, place)
        given = {"repo": repo, "limit": limit, "places": json.dumps(places)}
        return [ItemId(id_) for (id_,) in await self._db.rows(WAITING, given, prepare=False)]

    async def texts(self, repo: str, ids: Sequence[ItemId]) -> Sequence[PendingText]:
        if not ids:
            return []
        place = {id_: number for number, id_ in reversed(list(enumerate(ids)))}
        rows = await self._db.rows(TEXTS, {"repo": repo, "ids": list(place)})
        found: dict[bytes, PendingText] = {}
        for _, *row in sorted(rows, key=lambda row: place[row[0]]):
            found.setdefault(bytes(row[0]), _pending(*row))
        return list(found.values())

    async def take_over(self, ids: Sequence[ItemId]) -> None:
        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                await conn.execute(TAKE_OVER, {"ids": list(ids)})

        await self._db.retry(write)

    async def store_vectors(self, hashes: Sequence[bytes], vectors: Vectors) -> None:
        if vectors.shape[0] != len(hashes):
            raise InvalidInput(f"{len(hashes)} hashes came with {vectors.shape[0]} vectors")
        if not hashes:
            return

        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                model, dim = await _space(conn)
                if vectors.shape[1] != dim:
                    raise EmbeddingModelMismatch(model, dim, "the vectors'", vectors.shape[1])
                await conn.execute(
                    "CREATE TEMP TABLE IF NOT EXISTS new_vector"
                    " (content_hash bytea, embedding halfvec) ON COMMIT DELETE ROWS"
                )
                await _copy_vectors(conn, hashes, vectors)
                await conn.execute(STORE, {"model": model})
                await conn.execute("UPDATE embedding_space SET filled = true WHERE NOT filled")
                failpoint.hit("vectors.before_commit")

        await self._db.retry(write)

    async def coverage(self, repo: str) -> tuple[int, int]:
        """Chunks are counted as they are stored; agents' items count while they wait for a vector."""
        rows = await self._db.rows(COVERAGE, {"repo": repo})
        if not rows:
            raise RepositoryNotIndexed(repo)
        return int(rows[0][0]), int(rows[0][1] + rows[0][2])

    async def want(self, repo: str, wanted: bool) -> None:
        async def write(_attempt: int) -> None:
            async with self._db.connection() as conn:
                cursor = await conn.execute(
                    "UPDATE repository SET vectors_wanted = %s WHERE name = %s RETURNING id",
                    (wanted, repo),
                )
                if await cursor.fetchone() is None:
                    raise RepositoryNotIndexed(repo)

        await self._db.retry(write)

    async def wanting(self) -> Sequence[str]:
        return [name for (name,) in await self._db.rows(WANTING, {})]

    @asynccontextmanager
    async def filling(self, repo: str) -> AsyncIterator[bool]:
        rows = await self._db.rows(
            "SELECT id FROM repository WHERE name = %(repo)s", {"repo": repo}
        )
        if not rows:
            raise RepositoryNotIndexed(repo)
        conn = await self._db.dedicated()
        try:
            yield await locks.try_lock(conn, locks.EMBEDDING, rows[0][0])
        finally:
            await locks.release(conn, locks.EMBEDDING, rows[0][0])

    async def finish(self, repo: str) -> None:
        """Count what is embedded, and index each collection that is large enough for an index to pay."""
        await self._db.retry(lambda _: self._finish(repo))

    async def _finish(self, repo: str) -> None:
        async with self._db.connection() as conn:
            await conn.execute(RECOUNT, {"repo": repo})
        async with self._db.transaction() as conn:
            await conn.execute("SET LOCAL statement_timeout = 0")
            # One builder at a time; a second one finds the work done.
            await conn.execute("LOCK TABLE embedding_space IN SHARE ROW EXCLUSIVE MODE")
            cursor = await conn.execute("SELECT dim FROM embedding_space WHERE filled")
            row = await cursor.fetchone()
            if row is None:
                return
            await _index(conn, Collection.FILES.value, int(row[0]))
        await self.index_agents()

    async def index_agents(self) -> None:
        """See `VectorQueue.index_agents`."""
        space = await self._db.rows("SELECT dim FROM embedding_space WHERE filled", {})
        if space:
            await build_missing(self._db, int(space[0][0]))


def _pending(
    content_hash: bytes, path: str, symbol: str, content: str, context: str
) -> PendingText:
    return PendingText(content_hash, embedded_text(path, symbol, content, context))


async def _space(conn: Connection) -> tuple[str, int]:
    cursor = await conn.execute("SELECT model, dim FROM embedding_space FOR SHARE")
    row = await cursor.fetchone()
    if row is None:
        raise InvalidInput("no embedding model is recorded yet; call `ensure_space` first")
    return str(row[0]), int(row[1])


async def _copy_vectors(conn: Connection, hashes: Sequence[bytes], vectors: Vectors) -> None:
    """Binary COPY: a halfvec is its dimension, a spare int16, and big-endian half floats; psycopg sends
    bytes as they are. As text the same took ten times as long."""
    head = struct.pack(">hh", vectors.shape[1], 0)
    half = np.asarray(vectors).astype(">f2")
    async with (
        conn.cursor() as cursor,
        cursor.copy("COPY new_vector (content_hash, embedding) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        for hash_, row in zip(hashes, half, strict=True):
            await copy.write_row((hash_, head + row.tobytes()))


async def _index(conn: Connection, table: str, dim: int) -> None:
    """The HNSW index of one collection, once it is large enough. Raises as `transaction`."""
    name = f"{table}_embedding_{dim}"
    cursor = await conn.execute(
        "SELECT to_regclass(%s) IS NOT NULL,"
        f" (SELECT count(*) FROM (SELECT FROM {table} WHERE embedding IS NOT NULL LIMIT %s) few)",
        (name, INDEX_FROM_ROWS),
    )
    row = await cursor.fetchone()
    assert row is not None
    exists, rows = row
    if exists or rows < INDEX_FROM_ROWS:
        return
    logger.info("building an HNSW index", extra={"table": table, "dim": dim})
    megabytes = await build_mb(conn, table, dim)
    try:
        await _build(conn, name, table, dim, megabytes)
    except (DiskFull, OutOfMemory) as exc:
        # Workers are given all of it at once in /dev/shm, of which containers have little; one process
        # alone takes as much as it needs.
        logger.warning("building an HNSW index without workers", extra={"error": str(exc)})
        await conn.execute("SET LOCAL max_parallel_maintenance_workers = 0")
        await _build(conn, name, table, dim, megabytes)
    await conn.execute(f"ANALYZE {table}")


async def _build(conn: Connection, name: str, table: str, dim: int, megabytes: int) -> None:
    """Whole or not at all; the transaction around it stays usable."""
    async with conn.transaction():
        await conn.execute(f"SET LOCAL maintenance_work_mem = '{megabytes}MB'")
        await conn.execute(
            f"CREATE INDEX {name} ON {table} USING hnsw"
            f" ((embedding::halfvec({dim})) halfvec_cosine_ops) WITH (m = 16, ef_construction = 64)"
        )
