"""Episodes from before links were read of them: their items are read again, as those of a new one are.

A migration marks such episodes (`episode.reread`) and queues them; the projector comes here before it settles
what they touch. What an episode has of nodes, links, hunks and results stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.off_loop import off_loop
from plait.domain.values import Artifact, ArtifactKind, Episode, ItemId, Outcome
from plait.ports.episodes import NumberedEpisode
from plait.ports.rules import Rules
from vector.connection.bulk import insert_rows
from vector.connection.clock import tick
from vector.connection.pool import Connection
from vector.episodes import rows as r

MARKED = """
SELECT e.id, p.name, e.outcome, coalesce(e.valid_from, e.recorded_at)
  FROM episode e JOIN repository p ON p.id = e.repo_id
 WHERE e.repo_id = %(repo)s AND e.id = ANY(%(episodes)s) AND e.reread ORDER BY e.id
"""
# Ids ascend in the order of an episode's artifacts. Of a note that was changed since, what its run said.
ITEMS = """
SELECT id, kind, path, content, meta FROM item
 WHERE repo_id = %(repo)s AND episode_id = %(episode)s AND collection <> 'files' AND version = 1
 ORDER BY id
"""
STILL = "SELECT FROM episode WHERE id = %(episode)s AND reread"
OPEN = """
SELECT relation, source, target FROM memory_edge
 WHERE repo_id = %(repo)s AND episode_id = %(episode)s AND recorded_to IS NULL
"""
READ = "UPDATE episode SET reread = false WHERE id = %(episode)s"


async def relink(conn: Connection, repo_id: int, episodes: Sequence[UUID], rules: Rules) -> None:
    """Read what is marked of `episodes`. A transaction each, so that `forget` waits for one at most; a second
    call finds nothing to do. `conn`: the owner's, in autocommit."""
    given = {"repo": repo_id, "episodes": list(episodes)}
    cursor = await conn.execute(MARKED, given)
    for id_, repo, outcome, began in await cursor.fetchall():
        await _one(conn, repo_id, id_, repo, outcome, began, rules)


async def _one(
    conn: Connection,
    repo_id: int,
    id_: UUID,
    repo: str,
    outcome: dict[str, Any],
    began: datetime,
    rules: Rules,
) -> None:
    given = {"repo": repo_id, "episode": id_}
    cursor = await conn.execute(ITEMS, given)
    items = await cursor.fetchall()
    artifacts = [
        Artifact(ArtifactKind(kind), content, path, meta)
        for _, kind, path, content, meta in items
        if kind in set(ArtifactKind)
    ]
    ids = tuple(ItemId(row[0]) for row in items if row[1] in set(ArtifactKind))
    stored = Outcome(
        str(outcome.get("status") or "unknown"),
        str(outcome.get("summary") or ""),
        commit=str(outcome.get("commit") or ""),
        branch=str(outcome.get("branch") or ""),
    )
    episode = Episode("", repo, stored, artifacts, started_at=began)
    chars = sum(len(a.content) for a in artifacts)
    numbered = NumberedEpisode(episode, id_, ids, ())
    made = await off_loop(chars, lambda: r.EpisodeRows.of(rules.prepare(numbered)))
    async with conn.transaction():
        # First, so that what is forgotten is gone from here on.
        at = await tick(conn, repo_id)
        cursor = await conn.execute(STILL, given)
        if await cursor.fetchone() is None:
            return
        await _write(conn, repo_id, given, made, at)


async def _write(
    conn: Connection, repo_id: int, given: dict[str, Any], made: r.EpisodeRows, at: datetime
) -> None:
    cursor = await conn.execute(OPEN, given)
    there = set(await cursor.fetchall())
    edges = [row for row in made.edges(repo_id, at) if (row[2], row[3], row[4]) not in there]
    for table, columns, rows in (
        ("hunk", r.HUNK_COLUMNS, made.hunks(repo_id)),
        ("test_result", r.RESULT_COLUMNS, made.results(repo_id, at)),
        ("memory_node", r.NODE_COLUMNS, sorted(made.nodes(repo_id, at))),
        ("memory_edge", r.EDGE_COLUMNS, edges),
    ):
        await insert_rows(conn, table, columns, rows, on_conflict="ON CONFLICT DO NOTHING")
    await conn.execute(READ, given)
