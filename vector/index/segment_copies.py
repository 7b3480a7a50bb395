"""BM25 segments of another repository, for the documents that were copied from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from plait.models.embedding import static
from plait.models.embedding.static import Encoded
from plait.ports import Draft
from vector.connection.pool import Connection
from vector.index import segment_vectors, segments
from vector.index.segments import Stored

COPY_POSTINGS = """
INSERT INTO posting (segment_id, repo_id, term, body)
SELECT %(new)s, %(repo)s, term, body FROM posting WHERE segment_id = %(old)s ORDER BY term
"""
COPY_VECTORS = """
INSERT INTO segment_vector (segment_id, repo_id, model, body)
SELECT %(new)s, %(repo)s, model, body FROM segment_vector WHERE segment_id = %(old)s
"""
VECTORS = """
SELECT segment_id, body FROM segment_vector WHERE segment_id = ANY(%(ids)s) AND model = %(model)s
"""


def mapped(
    stored: Sequence[Stored], old: Sequence[UUID], new: Sequence[UUID]
) -> list[Stored] | None:
    """The segments that hold the chunks `old`, with the ids `new` in their place and nothing else kept; None when
    they don't hold each of them once."""
    ids = np.frombuffer(b"".join(id_.bytes for id_ in old), "S16")
    order = np.argsort(ids)
    ids = ids[order]
    others = np.frombuffer(b"".join(id_.bytes for id_ in new), "V16")[order]
    parts, found = [], 0
    for segment in stored:
        mine = np.frombuffer(segment.ids, "S16")
        at = np.searchsorted(ids, mine)
        at[at == len(ids)] = 0
        kept = segment.alive & (ids[at] == mine if len(ids) else False)
        if kept.any():
            found += int(kept.sum())
            parts.append(replace(segment, ids=others[at].tobytes(), alive=kept, kept=kept))
    return parts if found == len(old) else None


async def write(conn: Connection, draft: Draft, parts: Sequence[Stored]) -> None:
    """Write the words of `parts`, segments of another repository with ids of this one: a segment that is kept whole as
    it is, the rest as one. Their vectors too, as far as they are there."""
    for part in parts:
        if part.kept.all():
            params = {"repo": draft.repo_id, "old": part.id}
            params["new"] = await segments.insert_header(
                conn, draft.repo_id, "files", draft.number, part.ids, part.lengths
            )
            await conn.execute(COPY_POSTINGS, params, prepare=False)
            await conn.execute(COPY_VECTORS, params, prepare=False)
    rest = sorted((part for part in parts if not part.kept.all()), key=lambda part: part.id)
    if rest:
        merged = await segments.merge(conn, draft.repo_id, "files", rest, rev_from=draft.number)
        await _take_vectors(conn, draft, rest, merged)


async def _take_vectors(
    conn: Connection, draft: Draft, parts: Sequence[Stored], merged: int
) -> None:
    """The vectors of the kept documents of `parts`, in their order; none when one lacks them: then the publish makes
    them all."""
    params = {"ids": [part.id for part in parts], "model": static.NAME}
    cursor = await conn.execute(VECTORS, params, binary=True)
    bodies = {id_: bytes(body) for id_, body in await cursor.fetchall()}
    if len(bodies) < len(parts):
        return
    encoded = [segment_vectors.decoded(bodies[part.id], len(part.kept)) for part in parts]
    rows = np.concatenate([one.rows[part.kept] for one, part in zip(encoded, parts, strict=True)])
    scales = np.concatenate(
        [one.scales[part.kept] for one, part in zip(encoded, parts, strict=True)]
    )
    await segment_vectors.insert(conn, draft.repo_id, merged, Encoded(rows, scales))
