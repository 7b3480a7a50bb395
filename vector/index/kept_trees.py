"""Trees that stay stored after another one was published, so that a switch back to them costs little.

The trees of a repository's last `index.keep_trees` branches are kept, each branch's last one, and the last few
whatever their branch; the oldest go first while what only they hold is larger than what is published. Readers see
nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vector.connection.pool import Connection

# Of one branch: an edit that is undone is a tree that comes back, too.
RECENT = 4
# What the kept trees may hold besides the published one, at least: so that small repositories keep all.
MIN_HIDDEN_BYTES = 4_000_000

TREES = """
SELECT number, tree, branch FROM revision_log
 WHERE repo_id = %(id)s AND tree IS NOT NULL ORDER BY number DESC
"""
FORGET = """
UPDATE revision_log SET tree = NULL, stats = NULL WHERE repo_id = %(id)s AND number = ANY(%(numbers)s)
"""
# Bytes of the files that are not published, each counted at the newest tree that holds it; and of those that are.
HIDDEN = """
SELECT newest, sum(size_bytes)::bigint FROM (
       SELECT v.size_bytes, max(k.number) AS newest
         FROM unnest(%(numbers)s::int[]) AS k (number)
         JOIN file_member m ON m.repo_id = %(id)s AND m.rev_from <= k.number AND m.rev_to > k.number
         JOIN file_version v USING (repo_id, path, written)
        WHERE NOT EXISTS (SELECT FROM file_member o WHERE o.repo_id = m.repo_id AND o.path = m.path
                             AND o.written = m.written AND o.rev_to IS NULL)
        GROUP BY v.path, v.written, v.size_bytes) hidden
 GROUP BY newest
"""
SHOWN = """
SELECT coalesce(sum(size_bytes), 0)::bigint FROM file_member JOIN file_version USING (repo_id, path, written)
 WHERE repo_id = %(id)s AND rev_to IS NULL
"""

_LEFT = """
DELETE FROM {member} m
 WHERE m.repo_id = %(id)s AND m.rev_to <= {horizon}
   AND NOT EXISTS (SELECT FROM revision_log l WHERE l.repo_id = m.repo_id AND l.tree IS NOT NULL
                      AND l.number >= m.rev_from AND l.number < m.rev_to)
RETURNING m.path, m.written
"""
_DROP = """
DELETE FROM {table} t USING unnest(%(paths)s::text[], %(written)s::int[]) AS gone (path, written)
 WHERE t.repo_id = %(id)s AND t.path = gone.path AND t.{written} = gone.written
   AND NOT EXISTS (SELECT FROM {member} m WHERE m.repo_id = t.repo_id AND m.path = gone.path
                      AND m.written = gone.written)
"""


def selected(trees: Sequence[tuple[int, bytes, str]], most: int) -> list[int]:
    """The numbers that stay of `(number, tree, branch)`, newest first: each tree once, and at most `most`."""
    kept: list[int] = []
    known: set[bytes] = set()
    branches: set[str] = set()
    for number, tree, branch in trees:
        if tree in known or len(kept) >= most:
            continue
        known.add(tree)
        if len(kept) < RECENT or branch not in branches:
            kept.append(number)
        branches.add(branch)
    return kept


async def prune(conn: Connection, repo_id: int, most: int) -> None:
    """Forget the trees that are not to be kept; `most` 0: all."""
    params: dict[str, Any] = {"id": repo_id}
    cursor = await conn.execute(TREES, params)
    trees = [(number, bytes(tree), branch) for number, tree, branch in await cursor.fetchall()]
    kept = selected(trees, most)
    kept = kept[: await _fitting(conn, params, kept)]
    gone = sorted({number for number, _, _ in trees} - set(kept))
    if gone:
        await conn.execute(FORGET, {**params, "numbers": gone})


async def _fitting(conn: Connection, params: dict[str, Any], kept: list[int]) -> int:
    """How many of `kept` together hold no more than is published."""
    if len(kept) < 2:
        return len(kept)
    cursor = await conn.execute(HIDDEN, {**params, "numbers": kept})
    hidden: dict[int, int] = dict(await cursor.fetchall())
    if sum(hidden.values()) <= MIN_HIDDEN_BYTES:
        return len(kept)
    cursor = await conn.execute(SHOWN, params)
    row = await cursor.fetchone()
    left = max(MIN_HIDDEN_BYTES, row[0] if row else 0)
    for n, number in enumerate(kept):
        left -= hidden.get(number, 0)
        if left < 0:
            return n
    return len(kept)


async def drop_left(conn: Connection, params: dict[str, Any]) -> None:
    """Delete the intervals that neither a reader (`horizon`), nor the graph's projection (`graph`), nor a kept tree
    needs, and what no interval holds any more."""
    for member, horizon, tables in (
        ("file_member", "%(horizon)s", (("files", "rev_from"), ("file_version", "written"))),
        ("graph_member", "%(graph)s", (("graph_part", "written"),)),
    ):
        cursor = await conn.execute(_LEFT.format(member=member, horizon=horizon), params)
        gone = await cursor.fetchall()
        if not gone:
            continue
        given = {
            **params,
            "paths": [path for path, _ in gone],
            "written": [written for _, written in gone],
        }
        for table, written in tables:
            await conn.execute(_DROP.format(table=table, written=written, member=member), given)
