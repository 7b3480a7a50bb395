"""Contents that another repository of the tenant has stored, copied inside the database.

A second work tree, or a second copy, mostly holds what is stored already. Its rows are its own from the start, with
ids and revisions of their own: no reader of one repository can come upon the other's, and either may be removed.
What is copied is what the other one publishes, and of that only files whose path and content are wanted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.graph import part_digest, renamed
from plait.domain.ids import new_item_ids
from plait.ports import Draft, KeptFile, Sibling
from vector.connection.arrays import uuid_array
from vector.connection.pool import Connection, Database, copy_rows
from vector.index import segment_copies, segments
from vector.index import sql as q
from vector.index.visible import held

# Rows of the graph in hand at once: some 6 kB each.
GRAPH_ROUND = 500
# With more vectors than these an index over all of them grows by a millisecond each; they are taken over in the
# background (`VectorQueue.take_over`).
MOST_VECTORS = 500

SIBLING = f"""
SELECT r.id, r.name, r.published, f.found
  FROM repository r
 CROSS JOIN LATERAL (
       SELECT count(*) AS found FROM unnest(%(paths)s::text[], %(hashes)s::bytea[]) AS w (path, hash)
        CROSS JOIN LATERAL (
              SELECT FROM file_member m JOIN file_version v USING (repo_id, path, written)
               WHERE m.repo_id = r.id AND m.path = w.path AND {held("m", "r.published")}
                 AND v.content_hash = w.hash OFFSET 0) one) f
 WHERE r.id <> %(repo)s AND r.published > 0 AND (r.stats->>'facts_version')::int = %(facts_version)s
   AND r.tenant = (SELECT tenant FROM repository WHERE id = %(repo)s)
 ORDER BY f.found DESC, r.published_at DESC, r.id LIMIT 1
"""

FILES = f"""
SELECT m.path, v.content_hash, v.language, v.lines, m.written, v.facts
  FROM unnest(%(paths)s::text[], %(hashes)s::bytea[]) AS w (path, hash)
  JOIN file_member m ON m.repo_id = %(from)s AND m.path = w.path AND {held("m", "%(number)s")}
  JOIN file_version v ON v.repo_id = m.repo_id AND v.path = m.path AND v.written = m.written
 WHERE v.content_hash = w.hash
"""

# Of the files chosen before, those that are published still; of all, when none are given.
STILL = f"""
SELECT m.path, m.written FROM file_member m JOIN file_version v USING (repo_id, path, written)
 WHERE m.repo_id = %(from)s AND {held("m", "%(number)s")}
   AND (%(paths)s::text[] IS NULL OR (m.path, m.written, v.content_hash) IN (
        SELECT * FROM unnest(%(paths)s::text[], %(written)s::int[], %(hashes)s::bytea[])))
 ORDER BY m.path
"""
_CHOSEN = "unnest(%(paths)s::text[], %(written)s::int[]) AS c (path, written)"
CHUNKS = f"""
SELECT f.id FROM {_CHOSEN} JOIN files f ON f.repo_id = %(from)s AND f.path = c.path AND f.rev_from = c.written
 ORDER BY f.path, f.start_line, f.id
"""
COPY_VERSIONS = f"""
INSERT INTO file_version (repo_id, written, lines, size_bytes, is_test, content_hash, language, path, facts)
SELECT %(repo)s, %(draft)s, v.lines, v.size_bytes, v.is_test, v.content_hash, v.language, v.path, v.facts
  FROM {_CHOSEN} JOIN file_version v ON v.repo_id = %(from)s AND v.path = c.path AND v.written = c.written
 ORDER BY v.path
"""
COPY_CHUNKS = """
INSERT INTO files (id, repo_id, rev_from, start_line, end_line, is_test, collection, kind, language,
                   content_hash, path, symbol, name, content, embedding_model, embedding)
SELECT c.new, %(repo)s, %(draft)s, f.start_line, f.end_line, f.is_test, f.collection, f.kind, f.language,
       f.content_hash, f.path, f.symbol, f.name, f.content,
       CASE WHEN %(vectors)s THEN f.embedding_model END, CASE WHEN %(vectors)s THEN f.embedding END
  FROM unnest(%(old)s::uuid[], %(new)s::uuid[]) AS c (old, new) JOIN files f ON f.id = c.old
 ORDER BY c.new
"""
COPY_NAMES = """
INSERT INTO symbol_name (repo_id, name)
SELECT DISTINCT repo_id, name FROM files WHERE id = ANY(%(new)s::uuid[]) AND name <> '' ON CONFLICT DO NOTHING
"""
HNSW = """
SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
 WHERE i.indrelid = 'plait.files'::regclass AND a.amname = 'hnsw'
"""
PUBLISHED = """
SELECT r.published, r.name, l.stats FROM repository r
  LEFT JOIN revision_log l ON l.repo_id = r.id AND l.number = r.published AND l.tree = %(tree)s
 WHERE r.id = %(from)s
"""
GRAPH = f"""
SELECT path, nodes, edges FROM file_graph g WHERE g.repo_id = %(from)s AND {held("g", "%(number)s")}
   AND g.path > %(after)s ORDER BY g.path LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Copied:
    """`stats`: of the revision whose tree was copied whole."""

    paths: frozenset[str]
    chunks: int
    stats: Mapping[str, Any] | None = None


NOTHING = Copied(frozenset(), 0)


async def sibling(
    db: Database, draft: Draft, sample: Mapping[str, bytes], facts_version: int
) -> Sibling | None:
    params = {
        "repo": draft.repo_id,
        "paths": list(sample),
        "hashes": list(sample.values()),
        "facts_version": facts_version,
    }
    rows = await db.rows(SIBLING, params, prepare=False)
    if not rows or 2 * rows[0][3] < max(1, len(sample)):
        return None
    return Sibling(*rows[0][:3])


async def files_of(
    db: Database, sibling: Sibling, wanted: Mapping[str, bytes]
) -> dict[str, KeptFile]:
    params = {
        "from": sibling.repo_id,
        "number": sibling.number,
        "paths": list(wanted),
        "hashes": list(wanted.values()),
    }
    return {row[0]: KeptFile(*row) for row in await db.rows(FILES, params, prepare=False)}


async def copy_files(
    conn: Connection, draft: Draft, source: Sibling, files: Sequence[KeptFile]
) -> Copied:
    """Into the draft, those of `files` that `source` publishes still. In a transaction that sees one snapshot."""
    published = await _published(conn, source, b"")
    if published is None:
        return NOTHING
    given = {
        "paths": [file.path for file in files],
        "written": [file.written for file in files],
        "hashes": [file.content_hash for file in files],
    }
    return await _copy(conn, draft, source, published[0], given)


async def copy_tree(conn: Connection, draft: Draft, source: Sibling, tree: bytes) -> Copied:
    """All that `source` publishes, its part of the graph under the draft's name, if it was made from `tree`."""
    published = await _published(conn, source, tree)
    if published is None or published[2] is None:
        return NOTHING
    number, name, stats = published
    everything = {"paths": None, "written": None, "hashes": None}
    copied = await _copy(conn, draft, source, number, everything)
    if not copied.paths:
        return NOTHING
    await _copy_graph(conn, draft, source, number, name)
    return Copied(copied.paths, copied.chunks, stats)


async def _published(
    conn: Connection, source: Sibling, tree: bytes
) -> tuple[int, str, Mapping[str, Any] | None] | None:
    """`(number, name, stats)` of what `source` publishes now, stats if it was made from `tree`; None when it is gone."""
    cursor = await conn.execute(PUBLISHED, {"from": source.repo_id, "tree": tree})
    row = await cursor.fetchone()
    return row if row and row[0] else None


async def _copy(
    conn: Connection, draft: Draft, source: Sibling, number: int, given: Mapping[str, Any]
) -> Copied:
    """Versions, chunks and words."""
    await conn.execute("SET LOCAL statement_timeout = 0")
    params: dict[str, Any] = {
        "from": source.repo_id,
        "number": number,
        "repo": draft.repo_id,
        "draft": draft.number,
    }
    # The numbers of the planner are those of before: plans made for these very values need none of them.
    cursor = await conn.execute(STILL, {**params, **given}, prepare=False)
    still = await cursor.fetchall()
    params |= {"paths": [path for path, _ in still], "written": [written for _, written in still]}
    cursor = await conn.execute(CHUNKS, params, binary=True, prepare=False)
    old = [row[0] for row in await cursor.fetchall()]
    new = new_item_ids(len(old))
    words = await segments.live(conn, source.repo_id, "files", number=number)
    parts = segment_copies.mapped(words, old, new)
    if parts is None:  # not as a publish leaves it: read the files instead
        return NOTHING
    await conn.execute(COPY_VERSIONS, params, prepare=False)
    members = [(draft.repo_id, draft.number, draft.number, path) for path, _ in still]
    await copy_rows(conn, "file_member", q.MEMBER_COLUMNS, members)
    cursor = await conn.execute(HNSW)
    vectors = len(new) <= MOST_VECTORS or await cursor.fetchone() is None
    params |= {"old": uuid_array(old), "new": uuid_array(new), "vectors": vectors}
    await conn.execute(COPY_CHUNKS, params, prepare=False)
    await conn.execute(COPY_NAMES, params, prepare=False)
    await segment_copies.write(conn, draft, parts)
    return Copied(frozenset(params["paths"]), len(new))


async def _copy_graph(
    conn: Connection, draft: Draft, source: Sibling, number: int, name: str
) -> None:
    params = {"from": source.repo_id, "number": number, "limit": GRAPH_ROUND, "after": ""}
    while True:
        cursor = await conn.execute(GRAPH, params, binary=True, prepare=False)
        parts = await cursor.fetchall()
        if not parts:
            return
        rows = await asyncio.to_thread(_graph_rows, draft, parts, name)
        await copy_rows(conn, "graph_part", q.GRAPH_COLUMNS, rows)
        members = [(draft.repo_id, draft.number, draft.number, path) for path, _, _ in parts]
        await copy_rows(conn, "graph_member", q.MEMBER_COLUMNS, members)
        params["after"] = parts[-1][0]


def _graph_rows(
    draft: Draft, parts: Sequence[tuple[str, bytes, bytes]], name: str
) -> list[tuple[Any, ...]]:
    """In the order of `GRAPH_COLUMNS`."""
    rows = []
    for path, nodes, edges in parts:
        nodes, edges = renamed(nodes, edges, name, draft.repo)
        rows.append((draft.repo_id, draft.number, part_digest(nodes, edges), path, nodes, edges))
    return rows
