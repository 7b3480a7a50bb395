"""EpisodeStore: agent runs, their items, their answers and their events in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import chain
from uuid import UUID

from plait.domain import failpoint
from plait.domain.errors import RequestForgotten, RequestIdReused, StoreContended
from plait.domain.off_loop import off_loop
from plait.domain.values import Episode, EpisodeReceipt, ItemId
from plait.ports.episodes import NumberedEpisode, number
from plait.ports.rules import Rules
from vector.anchors import anchored, anchored_text
from vector.connection.bulk import array_literal, insert_rows
from vector.connection.clock import tick
from vector.connection.pool import Connection, Scoped
from vector.episodes import rows as r
from vector.episodes.rows import EpisodeRows
from vector.index import segments
from vector.index.merger import SegmentMerger
from vector.index.repositories import ensure_row
from vector.memories import links

Answer = EpisodeReceipt | RequestIdReused

MAX_ITEMS = 500  # of one transaction
MAX_EPISODES = 500

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


class Episodes:
    """EpisodeStore. `merger`: what keeps the segments of the text index few."""

    def __init__(self, app: Scoped, merger: SegmentMerger, rules: Rules) -> None:
        self._app = app
        self._rules = rules
        self._merger = merger

    async def append(self, episode: Episode) -> EpisodeReceipt:
        (answer,) = await self.append_many([episode])
        if isinstance(answer, RequestIdReused):
            raise answer
        return answer

    async def append_many(self, episodes: Sequence[Episode]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        for places in _portions(episodes):
            batch = number([episodes[i] for i in places])
            answers.update(zip(places, await self._append_batch(batch), strict=True))
        return [answers[i] for i in range(len(episodes))]

    async def _append_batch(self, batch: Sequence[NumberedEpisode]) -> list[Answer]:
        answers, grown = await self._app.retry(lambda _: self._append(batch))
        self._merger.add(grown)
        return answers

    async def _append(
        self, batch: Sequence[NumberedEpisode]
    ) -> tuple[list[Answer], list[tuple[int, str]]]:
        """The answers, and the (repository, collection) pairs that have a segment more."""
        tenant = batch[0].episode.tenant
        async with self._app.transaction(tenant) as conn:
            names = sorted({one.episode.repo for one in batch})
            repos = {name: await ensure_row(conn, name, tenant) for name in names}
            fresh = await _claim_requests(conn, tenant, batch, repos)
            if len(fresh) < len(batch):
                answers = await _answers(conn, tenant, batch)
            else:
                answers = [EpisodeReceipt(one.id, one.items, repeated=False) for one in batch]
            new = [one for one in batch if one.id in fresh]
            grown = await _write(conn, new, repos, self._rules)
            failpoint.hit("append.before_commit")
        failpoint.hit("append.after_commit")
        return answers, grown


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


async def _claim_requests(
    conn: Connection, tenant: str, batch: Sequence[NumberedEpisode], repos: dict[str, int]
) -> set[UUID]:
    """Ids of the episodes whose request is new. Another call with one of these request ids waits
    here until that one has ended; in the order of ids, so that two such calls do not lock each other.
    """
    cursor = await conn.execute(
        _REQUESTS,
        {
            "tenant": tenant,
            "ids": [one.episode.request_id for one in batch],
            "repos": [repos[one.episode.repo] for one in batch],
            "hashes": [one.episode.body_hash for one in batch],
            "episodes": [one.id for one in batch],
            "items": [array_literal(one.items) for one in batch],
        },
    )
    return {row[0] for row in await cursor.fetchall()}


async def _answers(conn: Connection, tenant: str, batch: Sequence[NumberedEpisode]) -> list[Answer]:
    """What each request is answered, some of which were stored before."""
    ids = [one.episode.request_id for one in batch]
    cursor = await conn.execute(_ANSWERED, (tenant, ids))
    known = {row[0]: row[1:] for row in await cursor.fetchall()}
    answers: list[Answer] = []
    for one in batch:
        request_id = one.episode.request_id
        if request_id not in known:
            raise StoreContended(f"request {request_id!r} was removed just now; send it again")
        body_hash, episode_id, item_ids = known[request_id]
        if not body_hash:
            answers.append(RequestForgotten(request_id))
            continue
        if bytes(body_hash) != one.episode.body_hash:
            answers.append(RequestIdReused(request_id))
            continue
        # Our own id: new, or an earlier try of this very call whose answer was lost on the way.
        repeated = episode_id != one.id
        items = tuple(ItemId(i) for i in item_ids)
        answers.append(EpisodeReceipt(episode_id, items, repeated=repeated))
    return answers


async def _write(
    conn: Connection, batch: Sequence[NumberedEpisode], repos: dict[str, int], rules: Rules
) -> list[tuple[int, str]]:
    """Everything of `batch` but its requests; the (repository, collection) pairs of its segments.

    What does not need the recorded time comes before it: from the tick on, other writers of these
    repositories wait. The server writes the segments while the rows are made here.
    """
    if not batch:
        return []
    async with conn.pipeline():
        # Up to 500 texts of 1 MB: seconds.
        chars = sum(len(a.content) for one in batch for a in one.episode.artifacts)
        built = await off_loop(chars, r.segments_of, batch, rules.indexed_texts)
        for (repo, collection), segment in built.items():
            await segments.insert_whole(conn, repos[repo], collection.value, segment)
        made = await off_loop(chars, lambda: [EpisodeRows.of(rules.prepare(one)) for one in batch])
        mine = [(repos[one.episode.repo], p) for one, p in zip(batch, made, strict=True)]
        anchors = {
            n: await anchored.read(conn, n, (a for m, p in mine if m == n for a in p.anchors()))
            for n in sorted({n for n, _ in mine})
        }
        named = await _named(conn, mine)
        at = {n: await tick(conn, n) for n in sorted({n for n, _ in mine})}
        tables = (
            ("episode", r.EPISODE_COLUMNS, [p.episode(n, at[n]) for n, p in mine], ""),
            ("item", r.ITEM_COLUMNS, [x for n, p in mine for x in p.items(n, at[n], anchors[n], named)], ""),
            ("hunk", r.HUNK_COLUMNS, [x for n, p in mine for x in p.hunks(n)], ""),
            ("test_result", r.RESULT_COLUMNS, [x for n, p in mine for x in p.results(n, at[n])], ""),
            ("evidence", r.EVIDENCE_COLUMNS, [x for n, p in mine for x in p.evidence(n)], ""),
            ("memory_node", r.NODE_COLUMNS, _nodes(mine, at), "ON CONFLICT DO NOTHING"),
            ("memory_edge", r.EDGE_COLUMNS, [x for n, p in mine for x in p.edges(n, at[n])], ""),
        )  # fmt: skip
        for table, columns, rows, on_conflict in tables:
            await insert_rows(conn, table, columns, rows, on_conflict=on_conflict)
        await conn.execute(_EVENTS, ([n for n, _ in mine], [p.made.id for _, p in mine]))
    return [(repos[repo], collection.value) for repo, collection in built]


async def _named(conn: Connection, mine: Sequence[tuple[int, EpisodeRows]]) -> dict[ItemId, str]:
    """By item the column `anchors`: what its text names, and how that reads now. At most three queries a
    repository, none where nothing is named."""
    out: dict[ItemId, str] = {}
    naming = [(n, p.made, [i for i in p.made.items if i.mentions]) for n, p in mine]
    for repo in sorted({n for n, _, items in naming if items}):
        here = [(made, items) for n, made, items in naming if n == repo]
        mentioned = {i.id: i.mentions for _, items in here for i in items if i.mentions}
        index = (await links.look_up(conn, repo, mentioned)).index
        anchors = {
            i.id: index.named(mentioned[i.id], (i.path, i.symbol))
            for _, items in here
            for i in items
        }
        reads = await anchored_text.read(conn, repo, chain.from_iterable(anchors.values()))
        for made, items in here:
            for i in items:
                if column := anchored_text.stored_anchors(anchors[i.id], reads, set(made.changed)):
                    out[i.id] = column
    return out


def _nodes(mine: Sequence[tuple[int, EpisodeRows]], at: dict[int, datetime]) -> list[r.Row]:
    """Sorted: two writers that make the same Issue nodes wait for each other in one order."""
    rows = {row[:2]: row for n, p in mine for row in p.nodes(n, at[n])}
    return [rows[key] for key in sorted(rows)]
