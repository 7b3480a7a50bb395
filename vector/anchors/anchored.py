"""Hashes of the code that memories are anchored in, for one revision.

An anchor is a path, a symbol, or a symbol in a file. A symbol is a qualified name or its end at a `.`; in a
file it may also have a longer prefix than in the index (`src.app.get` for `app.get`). A path alone means the file. The
hash is over content hashes, so it differs for a file that moved.
"""

from __future__ import annotations

from collections.abc import Iterable

from vector.connection.pool import Connection
from vector.index.visible import chunk, held

MAX_CHUNKS = 200  # of one anchor: a more common name is no anchor
MAX_ANCHORS = 2_000  # of one batch

# `hash` of the anchor `a` (repo_id, number, path, symbol, leaf), NULL where nothing is found. Names of
# the second and later definitions of one symbol end in `#2`, `#3` and so on. One look-up by index an anchor.
HASH = f"""
 LEFT JOIN LATERAL (
      SELECT sha256(string_agg(c.content_hash, ''::bytea ORDER BY c.content_hash)) AS hash
        FROM (SELECT i.content_hash FROM plait.files i
               WHERE a.leaf <> '' AND i.repo_id = a.repo_id AND i.name <> ''
                 AND i.name >= a.leaf AND i.name < a.leaf || '$'
                 AND (i.name = a.leaf OR i.name >= a.leaf || '#')
                 AND {chunk("i", "a.number")}
                 AND (a.path = '' OR i.path = a.path)
                 AND (split_part(i.symbol, '#', 1) = a.symbol
                      OR right(split_part(i.symbol, '#', 1), length(a.symbol) + 1) = '.' || a.symbol
                      OR a.path <> '' AND right(a.symbol, length(split_part(i.symbol, '#', 1)) + 1)
                         = '.' || split_part(i.symbol, '#', 1))
               LIMIT {MAX_CHUNKS}) c
       UNION ALL
      SELECT sha256(f.content_hash) FROM plait.source_file f
       WHERE a.leaf = '' AND f.repo_id = a.repo_id AND f.path = a.path
         AND {held("f", "a.number")}
    ) h ON h.hash IS NOT NULL
"""

_NOW = f"""
SELECT a.path, a.symbol, h.hash
  FROM (SELECT r.id AS repo_id, r.published AS number, w.*
          FROM repository r
         CROSS JOIN unnest(%(paths)s::text[], %(symbols)s::text[], %(leaves)s::text[])
               AS w (path, symbol, leaf)
         WHERE r.id = %(repo)s AND r.published > 0) a
{HASH}
"""

Anchor = tuple[str, str]
"""(path, symbol), one of them may be empty"""


async def read(conn: Connection, repo_id: int, anchors: Iterable[Anchor]) -> dict[Anchor, bytes]:
    """Hashes of `anchors` in the published revision, without those that it does not contain. At most one query."""
    unique = sorted({a for a in anchors if a[0] or a[1]})[:MAX_ANCHORS]
    if not unique:
        return {}
    params = {
        "repo": repo_id,
        "paths": [path for path, _ in unique],
        "symbols": [symbol for _, symbol in unique],
        "leaves": [leaf(symbol) for _, symbol in unique],
    }
    cursor = await conn.execute(_NOW, params, prepare=False)
    return {(row[0], row[1]): bytes(row[2]) for row in await cursor.fetchall() if row[2]}


def leaf(symbol: str) -> str:
    """The last part of a name, without the number of a later part."""
    return symbol.partition("#")[0].rpartition(".")[2]
