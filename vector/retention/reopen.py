"""Entries that were closed come back: each as a new version, so that its history stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import sql

from plait.domain.graph import Relation
from plait.domain.ids import new_item_ids
from plait.domain.values import Collection, ItemId, embedded_text
from plait.text.tokenize import tokens
from vector.connection.pool import Connection
from vector.index import segments
from vector.memories.write import LASTING
from vector.search import compacted

# The newest versions of entries that are closed; of an equal text in the same scope only one may live.
CLOSED = """
SELECT DISTINCT ON (i.entry_id) i.id, i.entry_id, i.superseded_at, i.path, i.symbol, i.content,
       i.context, i.episode_id, i.agent_id, i.session_key, i.content_hash, i.superseded_by
  FROM memories i WHERE i.repo_id = %(repo)s AND i.entry_id = ANY(%(entries)s)
 ORDER BY i.entry_id, i.version DESC
"""
# One by one: without statistics the planner joins on the repository and filters the rest, 6 s for 2,000.
TAKEN = """
SELECT w.id FROM memories w CROSS JOIN LATERAL (
    SELECT FROM memories i
     WHERE i.repo_id = w.repo_id AND i.agent_id = w.agent_id AND i.session_key = w.session_key
       AND i.content_hash = w.content_hash AND i.superseded_at IS NULL AND i.episode_id IS NULL
     LIMIT 1) AS alive
 WHERE w.id = ANY(%(rows)s) AND w.episode_id IS NULL
"""
# All that a version holds but what makes it another one; columns that are added later come along.
COPIED = """
SELECT attname FROM pg_attribute
 WHERE attrelid = 'plait.memories'::regclass AND attnum > 0 AND NOT attisdropped
   AND attname <> ALL('{id,version,recorded_at,superseded_at,superseded_by,kept_until}')
 ORDER BY attnum
"""
# Links that ended with the entry begin again, where who says so is alive. Two statements: an OR of the
# two ways to find them is no index's to answer.
_EDGES = """
INSERT INTO memory_edge (repo_id, episode_id, entry_id, relation, source, target, path, resolver,
                         confidence, valid_from, valid_to, recorded_from)
SELECT e.repo_id, e.episode_id, e.entry_id, e.relation, e.source, e.target, e.path, e.resolver,
       e.confidence, e.valid_from, e.valid_to, %(at)s
  FROM unnest(%(entries)s::uuid[], %(ends)s::timestamptz[]) AS v (entry, ended)
  JOIN memory_edge e ON e.repo_id = %(repo)s AND e.recorded_to = v.ended AND {found}
 WHERE EXISTS (SELECT FROM memories s WHERE s.entry_id = e.entry_id AND s.repo_id = e.repo_id
                  AND s.superseded_at IS NULL)
    ON CONFLICT DO NOTHING
"""
EDGES = (
    _EDGES.format(found="e.entry_id = v.entry AND e.relation <> ALL(%(kept)s)"),
    _EDGES.format(found="e.target = 'memory/' || v.entry AND e.relation = %(similar)s"),
)


@dataclass(frozen=True, slots=True)
class Closed:
    """The newest version of an entry. `ended`: None while it lives."""

    row: UUID
    entry: UUID
    ended: datetime | None
    text: str  # what is indexed
    by: UUID | None
    key: tuple[Any, ...] | None  # of what may live once; None: of an episode


async def closed(conn: Connection, repo_id: int, entries: Sequence[UUID]) -> list[Closed]:
    """The newest version of each of `entries` that is there."""
    cursor = await conn.execute(CLOSED, {"repo": repo_id, "entries": list(entries)})
    return [
        Closed(
            row=row,
            entry=entry,
            ended=ended,
            text=embedded_text(path, symbol, content, context),
            by=by,
            key=None if episode is not None else (agent, session, bytes(hash_)),
        )
        for row, entry, ended, path, symbol, content, context, episode, agent, session, hash_, by in (
            await cursor.fetchall()
        )
    ]


async def reopen(
    conn: Connection, repo_id: int, closed: Sequence[Closed], at: datetime
) -> list[UUID]:
    """Bring `closed` back at `at`; the entries. One whose text lives again is left out."""
    cursor = await conn.execute(TAKEN, {"rows": [c.row for c in closed]})
    taken = {row for (row,) in await cursor.fetchall()}
    keys: set[object] = set()
    back: list[Closed] = []
    for one in closed:
        if one.ended is None or one.row in taken or (one.key and one.key in keys):
            continue
        keys.add(one.key)
        back.append(one)
    if back:
        await _insert(conn, repo_id, back, at)
    return [one.entry for one in back]


async def _insert(conn: Connection, repo_id: int, back: Sequence[Closed], at: datetime) -> None:
    ids = new_item_ids(len(back))
    cursor = await conn.execute(COPIED)
    names = [sql.Identifier(name) for (name,) in await cursor.fetchall()]
    await conn.execute(
        sql.SQL(
            "INSERT INTO memories (id, version, recorded_at, {names})"
            " SELECT w.id, o.version + 1, {at}, {values}"
            "   FROM unnest({ids}::uuid[], {olds}::uuid[]) AS w (id, old)"
            "   JOIN memories o ON o.id = w.old"
        ).format(
            names=sql.SQL(", ").join(names),
            values=sql.SQL(", ").join(sql.SQL("o.{}").format(name) for name in names),
            at=sql.Placeholder("at"),
            ids=sql.Placeholder("ids"),
            olds=sql.Placeholder("olds"),
        ),
        {"at": at, "ids": list(ids), "olds": [one.row for one in back]},
    )
    await compacted.end(conn, repo_id, [one.row for one in back], at)
    texts = segments.build([ItemId(id_) for id_ in ids], [tokens(one.text) for one in back])
    await segments.insert_whole(conn, repo_id, Collection.MEMORIES.value, texts)
    params = {
        "repo": repo_id,
        "at": at,
        "entries": [one.entry for one in back],
        "ends": [one.ended for one in back],
        "kept": LASTING,
        "similar": Relation.SIMILAR_TO.value,
    }
    for statement in EDGES:
        await conn.execute(statement, params)
