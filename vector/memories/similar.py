"""Near-duplicates by meaning, linked once vectors are there: as the owner, behind the writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.graph import Relation
from vector.connection.clock import tick
from vector.connection.pool import Connection, Database
from vector.memories.write import queue_event

MAX_SIMILAR = 10  # a memory, the nearest
# Up to here an agent's memories are compared one by one, with more the index is asked: 5,000 of 384 dimensions
# take 2 ms, a look-up in the index of 100,000 does too.
EXACT_ROWS = 5_000
# The index's candidate list, and what it looks at for one memory where an agent has few of many.
EF, MOST_LOOKED_AT = 80, 2_000
# Of one text in many sessions. They have the same words, and are linked by these when they are written.
MAX_EQUAL = 10
ROUNDING = 1e-3  # of a cosine between vectors of half floats

AGENTS = """
SELECT g.agent_id, (SELECT count(*) FROM (
           SELECT FROM memories i WHERE i.repo_id = %(repo)s AND i.agent_id = g.agent_id
              AND i.superseded_at IS NULL LIMIT %(exact)s + 1) few) > %(exact)s
  FROM (SELECT DISTINCT a.agent_id FROM unnest(%(hashes)s::bytea[]) AS h (hash) JOIN memories a
            ON a.content_hash = h.hash AND a.repo_id IS NOT DISTINCT FROM %(repo)s) g
"""

# The newer of two says it: ids grow with time. As `ALIVE` (vector/memories/write.py) these are found by their hash
# and nothing else, whatever statistics there are.
PAIRS = """
SELECT DISTINCT GREATEST(a.entry_id, n.entry_id), LEAST(a.entry_id, n.entry_id), n.score
  FROM unnest(%(hashes)s::bytea[]) AS h (hash)
 CROSS JOIN LATERAL (
       SELECT m.entry_id, m.agent_id, m.embedding FROM memories m
        WHERE m.content_hash = h.hash AND m.repo_id IS NOT DISTINCT FROM %(repo)s
          AND CASE WHEN m.superseded_at IS NULL AND m.episode_id IS NULL THEN m.agent_id = ANY(%(agents)s) END
          AND m.entry_id IS NOT NULL AND m.embedding IS NOT NULL LIMIT %(equal)s) a
 CROSS JOIN LATERAL ({nearest}) n
 WHERE n.score >= %(least)s
"""
_OTHERS = """
        WHERE i.repo_id = %(repo)s AND i.agent_id = a.agent_id AND i.superseded_at IS NULL
          AND i.entry_id <> a.entry_id AND i.episode_id IS NULL AND i.embedding IS NOT NULL
"""
# Of the column as it is, which the index is not on: every one of the agent is compared.
EACH = f"""
       SELECT i.entry_id, 1 - (i.embedding <=> a.embedding) AS score FROM memories i {_OTHERS}
        ORDER BY i.embedding <=> a.embedding LIMIT %(most)s
"""
BY_INDEX = f"""
       SELECT i.entry_id, 1 - (i.embedding::halfvec({{dim}}) <=> a.embedding::halfvec({{dim}})) AS score
         FROM memories i {_OTHERS}
        ORDER BY i.embedding::halfvec({{dim}}) <=> a.embedding::halfvec({{dim}}) LIMIT %(most)s
"""

# Both are alive still, and nothing says it yet.
LINK = f"""
INSERT INTO memory_edge (repo_id, entry_id, relation, source, target, resolver, confidence,
                         valid_from, valid_to, recorded_from)
SELECT a.repo_id, a.entry_id, '{Relation.SIMILAR_TO}', 'memory/' || a.entry_id, 'memory/' || b.entry_id,
       'vectors', LEAST(1, p.score), a.valid_from, a.valid_to, %(at)s
  FROM unnest(%(newer)s::uuid[], %(older)s::uuid[], %(scores)s::float8[]) AS p (newer, older, score)
  JOIN memories a ON a.entry_id = p.newer AND a.superseded_at IS NULL AND a.repo_id = %(repo)s
  JOIN memories b ON b.entry_id = p.older AND b.superseded_at IS NULL AND b.repo_id = %(repo)s
 WHERE NOT EXISTS (
       SELECT FROM memory_edge e
        WHERE e.repo_id = %(repo)s AND e.relation = '{Relation.SIMILAR_TO}' AND e.recorded_to IS NULL
          AND (e.entry_id = p.newer AND e.target = 'memory/' || p.older
            OR e.entry_id = p.older AND e.target = 'memory/' || p.newer))
    ON CONFLICT DO NOTHING RETURNING entry_id
"""


class Similar:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def link(self, repo: str, hashes: Sequence[bytes]) -> int:
        """See `MemoryStore.link_similar`. What one memory costs does not grow with how many there are."""
        if not hashes:
            return 0
        space = await self._db.rows("SELECT dim FROM embedding_space WHERE filled", {})
        known = await self._db.rows(
            "SELECT id FROM repository WHERE name = %(name)s", {"name": repo}
        )
        if not space or not known:
            return 0
        repo_id, dim = int(known[0][0]), int(space[0][0])
        pairs = await self._db.retry(lambda _: self._pairs(repo_id, dim, list(hashes)))
        if not pairs:
            return 0

        async def attempt(_: int) -> int:
            async with self._db.transaction() as conn:
                return await _link(conn, repo_id, pairs)

        return await self._db.retry(attempt)

    async def _pairs(self, repo_id: int, dim: int, hashes: list[bytes]) -> list[tuple[Any, ...]]:
        """`(newer entry, older entry, cosine)`. Agents with few memories are compared one by one, the others
        by the index."""
        given = {"repo": repo_id, "hashes": hashes, "exact": EXACT_ROWS}
        given |= {"most": MAX_SIMILAR, "equal": MAX_EQUAL}
        given["least"] = self._db.settings.memory.near_duplicate - ROUNDING
        found: list[tuple[Any, ...]] = []
        async with self._db.transaction() as conn:
            cursor = await conn.execute(AGENTS, given, prepare=False)
            agents = await cursor.fetchall()
            few = [agent for agent, many in agents if not many]
            many = [agent for agent, many in agents if many]
            # The planner knows neither vectors nor how many an agent has; only its index orders by distance.
            await conn.execute(
                f"SET LOCAL hnsw.ef_search = {EF}; SET LOCAL hnsw.max_scan_tuples = {MOST_LOOKED_AT}"
            )
            for asked, nearest in ((few, EACH), (many, BY_INDEX.format(dim=dim))):
                if asked:
                    if nearest is not EACH:
                        await conn.execute("SET LOCAL enable_sort = off")
                    query = PAIRS.format(nearest=nearest)
                    cursor = await conn.execute(query, {**given, "agents": asked}, prepare=False)
                    found += await cursor.fetchall()
        return found


async def _link(conn: Connection, repo_id: int, pairs: Sequence[tuple[Any, ...]]) -> int:
    at: datetime = await tick(conn, repo_id)
    newer, older, scores = zip(*pairs, strict=True)
    params = {"repo": repo_id, "at": at, "newer": list(newer), "older": list(older)}
    cursor = await conn.execute(LINK, {**params, "scores": list(scores)})
    linked: list[UUID] = [entry for (entry,) in await cursor.fetchall()]
    await queue_event(conn, repo_id, sorted(set(linked)))
    return len(linked)
