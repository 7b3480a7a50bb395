"""Everything that the truth holds of one repository's memory, read in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from vector.index.visible import CHUNKS_OF, held

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

REPOSITORY = "SELECT id FROM repository WHERE name = %(name)s"
REQUESTS = "SELECT request_id, episode_id, item_ids FROM request WHERE repo_id = %(repo)s"
MEMORY_REQUESTS = """
SELECT request_id, entry_ids, duplicate FROM memory_request WHERE repo_id = %(repo)s
"""
EPISODES = "SELECT id, projected, recorded_at FROM episode WHERE repo_id = %(repo)s"
ITEMS = """
SELECT id, collection, content, episode_id, entry_id, version, recorded_at, superseded_at,
       superseded_by
  FROM item WHERE repo_id = %(repo)s AND collection <> 'files' ORDER BY id
"""
SEGMENTS = """
SELECT id, collection, ids, docs FROM segment
 WHERE repo_id = %(repo)s AND collection <> 'files' AND replaced_at IS NULL
"""
WITHOUT_TERMS = """
SELECT id FROM segment s WHERE repo_id = %(repo)s AND collection <> 'files' AND tokens > 0
   AND NOT EXISTS (SELECT FROM posting p WHERE p.segment_id = s.id)
"""
# What an append leaves besides its items, by episode: equal for requests of one shape.
DERIVED = """
SELECT e.id,
       (SELECT count(*) FROM hunk h WHERE h.episode_id = e.id),
       (SELECT count(*) FROM test_result t WHERE t.episode_id = e.id),
       (SELECT count(*) FROM evidence v WHERE v.episode_id = e.id),
       (SELECT count(*) FROM memory_node n WHERE n.episode_id = e.id),
       (SELECT count(*) FROM memory_edge m WHERE m.episode_id = e.id AND m.relation = 'CONTAINS')
  FROM episode e WHERE e.repo_id = %(repo)s
"""
# What compactions that stand have done.
STEPS = """
SELECT s.action, s.entry_id, s.into_id FROM compaction_step s JOIN compaction c ON c.id = s.compaction_id
 WHERE c.repo_id = %(repo)s AND c.undone_at IS NULL
"""
# Compactions, and whether each was undone; what those that were had closed.
COMPACTIONS = "SELECT id, undone_at IS NOT NULL FROM compaction WHERE repo_id = %(repo)s"
UNDONE_STEPS = """
SELECT s.entry_id, s.into_id FROM compaction_step s JOIN compaction c ON c.id = s.compaction_id
 WHERE c.repo_id = %(repo)s AND c.undone_at IS NOT NULL AND s.action <> 'pin'
"""
FEEDBACK = """
SELECT request_id, recall_id, accepted FROM feedback
 WHERE repo_id = %(repo)s AND body_hash <> ''
"""
VERDICTS = """
SELECT recall_id, item_id, helped > 0, harmed > 0 FROM feedback_item
 WHERE repo_id = %(repo)s AND superseded_at IS NULL
"""
# What a reader of the published revision is given of the files.
CODE = f"""
SELECT f.path, f.content FROM file_member m JOIN files f ON {CHUNKS_OF} JOIN repository r ON r.id = m.repo_id
 WHERE r.id = %(repo)s AND {held("m", "r.published")}
"""
FORGOTTEN = "SELECT entries, episodes FROM forgotten WHERE repo_id = %(repo)s"
CLOCK = "SELECT at FROM repo_clock WHERE repo_id = %(repo)s"
WAITING = "SELECT count(*) FROM outbox WHERE repo_id = %(repo)s"
DEAD = "SELECT event_id, kind, cause FROM dead_letter WHERE repo_id = %(repo)s"


@dataclass(frozen=True, slots=True)
class Item:
    id: UUID
    collection: str
    content: str
    episode_id: UUID | None
    entry_id: UUID | None
    version: int
    recorded_at: datetime
    superseded_at: datetime | None
    superseded_by: UUID | None


@dataclass(frozen=True, slots=True)
class Segment:
    id: int
    collection: str
    ids: tuple[UUID, ...]
    docs: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`requests`: request id → (episode, its items). `memory_requests`: request id → (entries,
    whether each was a duplicate). `derived`: episode → counts of its other rows."""

    repo: str
    requests: Mapping[str, tuple[UUID, tuple[UUID, ...]]]
    memory_requests: Mapping[str, tuple[tuple[UUID, ...], tuple[bool, ...]]]
    episodes: Mapping[UUID, tuple[bool, datetime]]
    items: tuple[Item, ...]
    segments: tuple[Segment, ...]
    without_terms: tuple[int, ...]
    derived: Mapping[UUID, tuple[int, ...]]
    steps: tuple[tuple[str, UUID, UUID | None], ...]  # (action, entry, what stands for it)
    compactions: Mapping[UUID, bool]  # whether it was undone
    undone: frozenset[
        tuple[UUID, UUID | None]
    ]  # what undone compactions had closed, what stood for it
    feedback: Mapping[str, tuple[UUID, int]]  # request id → (recall, items taken)
    verdicts: tuple[tuple[UUID, UUID, bool, bool], ...]  # (recall, item, helped, harmed)
    code: tuple[tuple[str, str], ...]  # (path, text) of the published revision
    forgotten: frozenset[UUID]
    clock: datetime | None
    waiting: int
    dead: tuple[tuple[int, str, str], ...]


async def take(conn: Connection, repo: str) -> Snapshot | None:
    """None: the repository has no row yet."""
    async with conn.transaction():
        await conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = await _rows(conn, REPOSITORY, {"name": repo})
        if not found:
            return None
        given = {"repo": found[0][0]}
        clock = await _rows(conn, CLOCK, given)
        return Snapshot(
            repo=repo,
            requests={r: (e, tuple(i)) for r, e, i in await _rows(conn, REQUESTS, given)},
            memory_requests={
                r: (tuple(e), tuple(d)) for r, e, d in await _rows(conn, MEMORY_REQUESTS, given)
            },
            episodes={e: (p, at) for e, p, at in await _rows(conn, EPISODES, given)},
            items=tuple(Item(*row) for row in await _rows(conn, ITEMS, given)),
            segments=tuple(
                Segment(id_, collection, _uuids(bytes(ids)), docs)
                for id_, collection, ids, docs in await _rows(conn, SEGMENTS, given)
            ),
            without_terms=tuple(row[0] for row in await _rows(conn, WITHOUT_TERMS, given)),
            derived={row[0]: tuple(row[1:]) for row in await _rows(conn, DERIVED, given)},
            steps=tuple((a, e, i) for a, e, i in await _rows(conn, STEPS, given)),
            compactions={row[0]: row[1] for row in await _rows(conn, COMPACTIONS, given)},
            undone=frozenset((e, i) for e, i in await _rows(conn, UNDONE_STEPS, given)),
            feedback={r: (c, n) for r, c, n in await _rows(conn, FEEDBACK, given)},
            verdicts=tuple((c, i, h, w) for c, i, h, w in await _rows(conn, VERDICTS, given)),
            code=tuple((path, text) for path, text in await _rows(conn, CODE, given)),
            forgotten=frozenset(
                id_
                for entries, episodes in await _rows(conn, FORGOTTEN, given)
                for id_ in (*entries, *episodes)
            ),
            clock=clock[0][0] if clock else None,
            waiting=(await _rows(conn, WAITING, given))[0][0],
            dead=tuple((row[0], row[1], row[2]) for row in await _rows(conn, DEAD, given)),
        )


async def _rows(conn: Connection, query: str, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return await (await conn.execute(query, given)).fetchall()


def _uuids(packed: bytes) -> tuple[UUID, ...]:
    return tuple(UUID(bytes=packed[i : i + 16]) for i in range(0, len(packed), 16))
