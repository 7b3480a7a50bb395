"""EpisodeStore: agent runs, their items, their answers and their events in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from plait.domain import failpoint
from plait.domain.errors import PlaitError, RequestIdReused, StoreContended
from plait.domain.values import Collection, Episode, EpisodeReceipt, ItemId
from plait.ports import Segment
from vector import episode_rows as r
from vector import locks, segments
from vector.bulk import array_literal, insert_rows
from vector.clock import tick
from vector.pool import Connection, Database, Scoped
from vector.repositories import drop_segments, ensure_row

logger = logging.getLogger(__name__)

Answer = EpisodeReceipt | RequestIdReused

MAX_ITEMS = 500  # of one transaction
MAX_EPISODES = 500
# A search reads every segment: at most this many more than merging leaves before it is merged again.
MERGE_EVERY = 8

_REQUESTS = """
INSERT INTO request (tenant, request_id, repo_id, body_hash, episode_id, item_ids)
SELECT %(tenant)s, id, repo, hash, episode, items::uuid[]
  FROM unnest(%(ids)s::text[], %(repos)s::int4[], %(hashes)s::bytea[], %(episodes)s::uuid[],
              %(items)s::text[]) AS sent (id, repo, hash, episode, items)
 ORDER BY id
    ON CONFLICT DO NOTHING RETURNING episode_id
"""
_ANSWERED = """
SELECT request_id, body_hash, episode_id, item_ids FROM request
 WHERE tenant = %s AND request_id = ANY(%s)
"""
_EVENTS = """
INSERT INTO outbox (repo_id, kind, episode_id)
SELECT repo, 'episode', id FROM unnest(%s::int4[], %s::uuid[]) AS sent (repo, id)
"""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one transaction stores of one tenant. `segments` by (repository, collection)."""

    tenant: str
    episodes: tuple[r.Prepared, ...]
    segments: dict[tuple[str, Collection], Segment]


class Episodes:
    _db: Database
    _app: Scoped
    _unmerged: dict[tuple[int, str], int]

    async def append(self, episode: Episode) -> EpisodeReceipt:
        (answer,) = await self.append_many([episode])
        if isinstance(answer, RequestIdReused):
            raise answer
        return answer

    async def append_many(self, episodes: Sequence[Episode]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for places in _portions(episodes):
            batch = _prepared([episodes[i] for i in places])
            told, grown = await self._app.retry(lambda _, batch=batch: self._append(batch))  # type: ignore[misc]
            answers.update(zip(places, told, strict=True))
            await self._merge_grown(grown)
        return [answers[i] for i in range(len(episodes))]

    async def _append(self, batch: _Batch) -> tuple[list[Answer], list[tuple[int, str]]]:
        """The answers, and the (repository, collection) pairs that have a segment more."""
        async with self._app.transaction(batch.tenant) as conn:
            names = sorted({p.episode.repo for p in batch.episodes})
            repos = {name: await ensure_row(conn, name, batch.tenant) for name in names}
            fresh = await _claim_requests(conn, batch, repos)
            if len(fresh) < len(batch.episodes):
                batch, answers = await _settle(conn, batch, fresh)
            else:
                answers = [EpisodeReceipt(p.id, p.items, repeated=False) for p in batch.episodes]
            grown = await _write(conn, batch, repos)
            failpoint.hit("append.before_commit")
        failpoint.hit("append.after_commit")
        return answers, grown

    async def _merge_grown(self, grown: Sequence[tuple[int, str]]) -> None:
        """Merge where segments may have become many; a process that begins looks at once."""
        due: dict[int, list[str]] = {}
        for place in grown:
            since = self._unmerged.get(place, MERGE_EVERY) + 1
            self._unmerged[place] = since if since < MERGE_EVERY else 0
            if since >= MERGE_EVERY:
                due.setdefault(place[0], []).append(place[1])
        for repo_id, collections in due.items():
            await self._merge(repo_id, collections)

    async def _merge(self, repo_id: int, collections: Sequence[str]) -> None:
        """Keep segments few. What fails here is logged: the episode is stored, a later one tries again."""
        try:
            async with self._db.transaction() as conn:
                cursor = await conn.execute(
                    "SELECT pg_try_advisory_xact_lock(%s, %s)", (locks.MERGING, repo_id)
                )
                row = await cursor.fetchone()
                if not row or not row[0]:
                    self._unmerged.update({(repo_id, c): MERGE_EVERY for c in collections})
                    return
                for collection in collections:
                    await segments.merge_small(conn, repo_id, collection)
                await drop_segments(
                    conn,
                    "repo_id = %(repo)s AND replaced_at < now() - interval '10 minutes'",
                    {"repo": repo_id},
                )
        except PlaitError as exc:
            logger.warning(
                "merging segments failed", extra={"reason": exc.reason, "error": str(exc)}
            )


def _portions(episodes: Sequence[Episode]) -> Iterator[list[int]]:
    """Places of episodes that share a transaction: of one tenant, up to 500 items together."""
    by_tenant: dict[str, list[int]] = {}
    for i, episode in enumerate(episodes):
        by_tenant.setdefault(episode.tenant, []).append(i)
    for places in by_tenant.values():
        portion: list[int] = []
        items = 0
        for i in places:
            n = len(episodes[i].artifacts)
            if portion and (items + n > MAX_ITEMS or len(portion) == MAX_EPISODES):
                yield portion
                portion, items = [], 0
            portion.append(i)
            items += n
        yield portion


def _prepared(episodes: Sequence[Episode]) -> _Batch:
    ready = r.prepare(episodes)
    return _Batch(episodes[0].tenant, tuple(ready), _segments(ready))


def _segments(ready: Sequence[r.Prepared]) -> dict[tuple[str, Collection], Segment]:
    """One a (repository, collection), over all episodes: what searches read stays little."""
    texts: dict[tuple[str, Collection], list[tuple[ItemId, list[str]]]] = {}
    for one in ready:
        for collection, documents in one.documents.items():
            texts.setdefault((one.episode.repo, collection), []).extend(documents)
    return {
        place: segments.build([id_ for id_, _ in found], [terms for _, terms in found])
        for place, found in texts.items()
    }


async def _claim_requests(conn: Connection, batch: _Batch, repos: dict[str, int]) -> set[UUID]:
    """Ids of the episodes whose request is new. Another call with one of these request ids waits
    here until that one has ended; in the order of ids, so that two such calls do not lock each other.
    """
    cursor = await conn.execute(
        _REQUESTS,
        {
            "tenant": batch.tenant,
            "ids": [p.episode.request_id for p in batch.episodes],
            "repos": [repos[p.episode.repo] for p in batch.episodes],
            "hashes": [p.episode.body_hash for p in batch.episodes],
            "episodes": [p.id for p in batch.episodes],
            "items": [array_literal(p.items) for p in batch.episodes],
        },
    )
    return {row[0] for row in await cursor.fetchall()}


async def _settle(conn: Connection, batch: _Batch, fresh: set[UUID]) -> tuple[_Batch, list[Answer]]:
    """The rest of `batch` that is to be stored, and the answer in each place."""
    ids = [p.episode.request_id for p in batch.episodes]
    cursor = await conn.execute(_ANSWERED, (batch.tenant, ids))
    known = {row[0]: row[1:] for row in await cursor.fetchall()}
    answers: list[Answer] = []
    for one in batch.episodes:
        request_id = one.episode.request_id
        if request_id not in known:
            raise StoreContended(f"request {request_id!r} was removed just now; send it again")
        body_hash, episode_id, item_ids = known[request_id]
        if bytes(body_hash) != one.episode.body_hash:
            answers.append(RequestIdReused(request_id))
            continue
        # Our own id: new, or an earlier try of this very call whose answer was lost on the way.
        repeated = episode_id != one.id
        items = tuple(ItemId(i) for i in item_ids)
        answers.append(EpisodeReceipt(episode_id, items, repeated=repeated))
    rest = tuple(p for p in batch.episodes if p.id in fresh)
    return _Batch(batch.tenant, rest, _segments(rest)), answers


async def _write(conn: Connection, batch: _Batch, repos: dict[str, int]) -> list[tuple[int, str]]:
    """Everything of `batch` but its requests. What does not need the recorded time comes before it:
    from the tick on, other writers of these repositories wait."""
    if not batch.episodes:
        return []
    mine = [(repos[p.episode.repo], p) for p in batch.episodes]
    async with conn.pipeline():
        for (repo, collection), segment in batch.segments.items():
            await segments.insert_whole(conn, repos[repo], collection.value, segment)
        at: dict[int, datetime] = {}
        for repo_id in sorted({repo_id for repo_id, _ in mine}):
            at[repo_id] = await tick(conn, repo_id)
        tables = (
            ("episode", r.EPISODE_COLUMNS, [p.episode_row(n, at[n]) for n, p in mine], ""),
            ("item", r.ITEM_COLUMNS, [x for n, p in mine for x in p.item_rows(n, at[n])], ""),
            ("hunk", r.HUNK_COLUMNS, [x for n, p in mine for x in p.hunk_rows(n)], ""),
            ("test_result", r.RESULT_COLUMNS, [x for n, p in mine for x in p.result_rows(n, at[n])], ""),
            ("evidence", r.EVIDENCE_COLUMNS, [x for n, p in mine for x in p.evidence_rows(n)], ""),
            ("memory_node", r.NODE_COLUMNS, _nodes(mine, at), "ON CONFLICT DO NOTHING"),
            ("memory_edge", r.EDGE_COLUMNS, [x for n, p in mine for x in p.edge_rows(n, at[n])], ""),
        )  # fmt: skip
        for table, columns, rows, on_conflict in tables:
            await insert_rows(conn, table, columns, rows, on_conflict=on_conflict)
        await conn.execute(_EVENTS, ([n for n, _ in mine], [p.id for _, p in mine]))
    return [(repos[repo], collection.value) for repo, collection in batch.segments]


def _nodes(mine: Sequence[tuple[int, r.Prepared]], at: dict[int, datetime]) -> list[r.Row]:
    """Sorted: two writers that make the same Issue nodes wait for each other in one order."""
    rows = {row[:2]: row for n, p in mine for row in p.node_rows(n, at[n])}
    return [rows[key] for key in sorted(rows)]
