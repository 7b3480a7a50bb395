"""The static table's vectors of a segment's documents: one row a segment, written once, gone with it.

`body` = `docs` rows of int8, then as many float32 scales, little-endian. Segments that lack them (merged
ones, those of an older home or of another table) get them from their postings before the next publish.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from plait.models.embedding import static
from plait.models.embedding.static import Encoded
from plait.ports import Draft
from vector.connection.pool import Connection

INSERT = """
INSERT INTO segment_vector (segment_id, repo_id, model, body) VALUES (%s, %s, %s, %s)
    ON CONFLICT (segment_id) DO UPDATE SET model = EXCLUDED.model, body = EXCLUDED.body
"""
LACKING = """
SELECT s.id, s.docs FROM segment s
 WHERE s.repo_id = %(repo)s AND s.collection = 'files' AND s.rev_from <= %(number)s
   AND (s.rev_to IS NULL OR s.rev_to > %(number)s)
   AND NOT EXISTS (SELECT FROM segment_vector v WHERE v.segment_id = s.id AND v.model = %(model)s)
 ORDER BY s.id
"""


async def encoded(
    documents: int, terms: Sequence[str], docs: Sequence[bytes], tfs: Sequence[bytes]
) -> Encoded:
    """The vectors of a segment's documents, from its postings, off the event loop."""
    return await asyncio.to_thread(static.shipped().encode, documents, terms, docs, tfs)


async def insert(conn: Connection, repo_id: int, segment_id: int, vectors: Encoded) -> None:
    body = vectors.rows.tobytes() + vectors.scales.astype("<f4").tobytes()
    await conn.execute(INSERT, (segment_id, repo_id, static.NAME, body))


async def complete(conn: Connection, draft: Draft) -> None:
    """Give the segments of `draft`'s revision that lack vectors of the current table theirs."""
    params = {"repo": draft.repo_id, "number": draft.number, "model": static.NAME}
    cursor = await conn.execute(LACKING, params)
    for segment_id, documents in await cursor.fetchall():
        vectors = await _from_postings(conn, segment_id, documents)
        await insert(conn, draft.repo_id, segment_id, vectors)


async def _from_postings(conn: Connection, segment_id: int, documents: int) -> Encoded:
    cursor = await conn.execute(
        "SELECT term, body FROM posting WHERE segment_id = %s", (segment_id,), binary=True
    )
    rows = await cursor.fetchall()
    sizes = [len(body) // 5 for _, body in rows]
    return await encoded(
        documents,
        [term for term, _ in rows],
        [body[: 4 * n] for (_, body), n in zip(rows, sizes, strict=True)],
        [body[4 * n :] for (_, body), n in zip(rows, sizes, strict=True)],
    )


def decoded(body: bytes, documents: int) -> Encoded:
    """What `insert` wrote, without a copy."""
    dim = len(body) // documents - 4 if documents else 0
    rows = np.frombuffer(body, np.int8, documents * dim).reshape(documents, dim)
    return Encoded(rows, np.frombuffer(body, "<f4", documents, documents * dim))
