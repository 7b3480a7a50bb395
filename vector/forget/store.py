"""Forgetting: memories and episodes are removed for good, in one transaction, with the proof of it.

What goes with a memory: all its versions; duplicates that were closed in its favour; summaries that were
made of it, since they hold its words (what else they stood for comes back); the raw evidence of an
episode that loses a part. docs/forgetting.md says why, and what stays on disk for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg import sql
from psycopg.types.json import Jsonb

from plait.domain import failpoint
from plait.domain.errors import InvalidInput, RepositoryNotIndexed
from plait.domain.retention import ForgetReceipt, Held, Selector
from plait.domain.values import Collection
from vector.connection import locks
from vector.connection.clock import tick
from vector.connection.errors import translated
from vector.connection.pool import Connection, Database
from vector.forget import files, traces
from vector.forget import sql as q
from vector.forget.files import marks
from vector.index import bm25, segments
from vector.index.repositories import drop_segments
from vector.projection.store import queue_forget, queue_memories
from vector.retention import reopen

MAX_ROUNDS = 100  # of what hangs together; each goes one step further
NIL = UUID(int=0)


@dataclass(slots=True)
class _Going:
    """What goes, and what it takes along. `items`: rows, by collection."""

    repo_id: int
    entries: set[UUID] = field(default_factory=set)
    episodes: set[UUID] = field(default_factory=set)
    items: dict[str, list[UUID]] = field(default_factory=dict)
    touched: set[UUID] = field(default_factory=set)  # episodes that go or lose a part
    names: set[str] = field(default_factory=set)  # graph nodes
    edges: list[tuple[int, str, str, str, UUID | None]] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.entries or self.episodes)

    @property
    def rows(self) -> list[UUID]:
        return [id_ for ids in self.items.values() for id_ in ids]

    @property
    def shared(self) -> list[str]:
        """Issues and commits at the ends of edges that go."""
        ends = {end for _, _, source, target, _ in self.edges for end in (source, target)}
        return sorted(end for end in ends if end.startswith(("issue/", "commit/")))

    @property
    def params(self) -> dict[str, Any]:
        return {
            "repo": self.repo_id,
            "entries": sorted(self.entries),
            "episodes": sorted(self.episodes),
            "items": self.rows,
            "touched": sorted(self.touched),
            "names": sorted(self.names),
            "edges": [edge[0] for edge in self.edges],
            "shared": self.shared,
            "branches": self.branches,
        }


class Forgetting:
    """ForgetStore. `spaces`: cached text indexes, which may hold what goes."""

    def __init__(self, db: Database, spaces: bm25.SpaceCache) -> None:
        self._db = db
        self._spaces = spaces

    async def forget(
        self, tenant: str, repo: str, selector: Selector, *, dry_run: bool
    ) -> ForgetReceipt:
        """See `RetentionStore.forget`. A dry run does it all and takes it back, so it counts exactly."""
        check(selector)
        made: tuple[ForgetReceipt, list[int], traces.Gone | None] | None = None

        async def attempt(_number: int) -> tuple[ForgetReceipt, list[int], traces.Gone | None]:
            nonlocal made
            async with (
                self._db.connection() as conn,
                conn.transaction(force_rollback=dry_run),
            ):
                # One pass over every table may take longer than any other statement.
                await conn.execute("SET LOCAL statement_timeout = 0")
                if made is None or not await _committed(conn, made[0].id):
                    made = await _forget(conn, tenant, repo, selector, dry_run)
                return made

        receipt, dropped, gone = await self._db.retry(attempt)
        if dry_run:
            return receipt
        if gone is None:
            # What an earlier call committed and could not finish, on a full disk say.
            if await self._db.rows(q.STALE, {}):
                await self._db.retry(lambda _: self._refresh(None))
            return receipt
        self._spaces.drop(dropped)
        # Committed already: a connection that is lost from here on must not fail the call.
        stale = await self._db.retry(lambda _: self._refresh(gone))
        left = {**receipt.left, "statistics": stale}
        return ForgetReceipt(
            receipt.id, receipt.entries, receipt.episodes, receipt.removed, left,
            receipt.event_id, False, receipt.reopened, marks(gone.ids, gone.words),
        )  # fmt: skip

    async def _refresh(self, gone: traces.Gone | None) -> int:
        """Take the planner's statistics anew, which hold values of columns; how many still hold some of
        `gone`. It serves all that was forgotten until now, and until it ends that stays to be done."""
        conn = await self._db.dedicated()
        try:
            with translated():
                await conn.execute("SET statement_timeout = 0")
                stale = [id_ for (id_,) in await (await conn.execute(q.STALE)).fetchall()]
                await conn.execute("ANALYZE " + ", ".join(f"plait.{t}" for t in q.ANALYZED))
                empty = []
                for table in q.ANALYZED:
                    cursor = await conn.execute(f"SELECT FROM plait.{table} LIMIT 1")
                    if await cursor.fetchone() is None:
                        empty.append(table)
                cursor = await conn.execute(q.CAN_CLEAR)
                if empty and (await cursor.fetchone() or (False,))[0]:
                    cursor = await conn.execute(q.EMPTY_STATISTICS, {"tables": empty})
                    for column in await cursor.fetchall():
                        await conn.execute(q.CLEAR, column)
                left = await traces.in_statistics(conn, gone, q.ANALYZED) if gone else 0
                await conn.execute(q.REFRESHED, {"ids": stale})
                return left
        finally:
            await conn.close()

    async def held(self, marks: Sequence[bytes]) -> Held | None:
        if not marks:
            return None
        conn = await self._db.dedicated()
        try:
            with translated():
                await conn.execute("SET statement_timeout = 0")
                # The outbox names what it removes from the graph until that is done, and holds no text.
                tables = [table for table in q.TOUCHED if table != "outbox"]
                return await files.held(conn, tables, marks)
        finally:
            await conn.close()

    async def reclaim(self) -> list[str]:
        conn = await self._db.dedicated()
        try:
            with translated():
                await conn.execute("SET statement_timeout = 0")
                tables = [f"plait.{t}" for t in q.TOUCHED]
                for table in tables:
                    await conn.execute(f"VACUUM (FULL, ANALYZE) {table}")
        finally:
            await conn.close()
        if await self._db.rows(q.STALE, {}):
            await self._db.retry(lambda _: self._refresh(None))
        return tables


def check(selector: Selector) -> None:
    """Raises: InvalidInput."""
    if not selector:
        raise InvalidInput(
            "nothing says what to forget; give ids, a source, an agent or a time range "
            "(a whole repository goes with `plait delete`)",
            field="selector",
        )
    if selector.source not in ("", "agent", "user", "system"):
        raise InvalidInput(
            f"source {selector.source[:40]!r} is none; write agent, user or system",
            field="selector.source",
        )
    start, end = selector.recorded_from, selector.recorded_to
    if any(time is not None and time.tzinfo is None for time in (start, end)):
        raise InvalidInput(
            "a time has no offset from UTC; write RFC 3339, as 2026-11-22T09:30:00Z",
            field="selector.recorded_from",
        )
    if start is not None and end is not None and end <= start:
        raise InvalidInput(
            f"recorded_to {end.isoformat()} is not after recorded_from; it is the exclusive end",
            field="selector.recorded_to",
        )


async def _committed(conn: Connection, id_: UUID) -> bool:
    """Whether an earlier try was committed after all, and only its answer was lost."""
    cursor = await conn.execute("SELECT FROM forgotten WHERE id = %s", (id_,))
    return await cursor.fetchone() is not None


async def _forget(
    conn: Connection, tenant: str, repo: str, selector: Selector, dry_run: bool
) -> tuple[ForgetReceipt, list[int], traces.Gone | None]:
    """`(receipt, segments that are no more, what to look for)`."""
    cursor = await conn.execute(
        "SELECT id FROM repository WHERE name = %s AND tenant = %s", (repo, tenant)
    )
    row = await cursor.fetchone()
    if row is None:
        raise RepositoryNotIndexed(repo)
    repo_id = int(row[0])
    # Merging first, then the clock: whoever writes memory waits from here on, and nothing is added.
    await conn.execute("SELECT pg_advisory_xact_lock(%s, %s)", (locks.MERGING, repo_id))
    at = await tick(conn, repo_id)
    going = await _select(conn, repo_id, selector)
    if not going:
        return ForgetReceipt(NIL, (), (), dry_run=dry_run), [], None
    stood_for = await _stood_for(conn, going)
    gone = traces.Gone(
        repo_id, [*going.rows, *sorted(going.entries | going.episodes)], sorted(going.names)
    )
    cursor = await conn.execute(q.TEXTS, going.params)
    texts = [text for (text,) in await cursor.fetchall()]
    found = await traces.distinctive(conn, gone, texts)
    gone = traces.Gone(repo_id, gone.ids, gone.names, found)
    removed, dropped = await _remove(conn, going, gone)
    failpoint.hit("forget.in_the_middle")
    back = await reopen.reopen(conn, repo_id, stood_for, at)
    removed["reopened"] = len(back)
    event_id = await _queue(conn, going, back, removed)
    left = await traces.left(conn, gone)
    receipt = ForgetReceipt(
        uuid4(), tuple(sorted(going.entries)), tuple(sorted(going.episodes)), removed, left,
        0 if dry_run else event_id, dry_run, tuple(back),
    )  # fmt: skip
    await _record(conn, going, selector, receipt, at)
    return receipt, dropped, gone


# -- what goes ----------------------------------------------------------------------------------------


async def _select(conn: Connection, repo_id: int, selector: Selector) -> _Going:
    params = {
        "repo": repo_id,
        "ids": list(selector.ids),
        "source": selector.source,
        "agent": selector.agent_id,
        "from": selector.recorded_from,
        "to": selector.recorded_to,
    }
    going = _Going(repo_id)
    going.entries = await _ids(conn, q.ENTRIES, params)
    going.episodes = await _ids(conn, q.EPISODES, params)
    if not going:
        return going
    going.entries |= await _ids(conn, q.OF_EPISODES, going.params)
    for _ in range(MAX_ROUNDS):
        going.names = _own_names(going)
        more = await _ids(conn, q.BOUND, going.params) - going.entries
        if not more:
            break
        going.entries |= more
    await _surroundings(conn, going)
    return going


async def _surroundings(conn: Connection, going: _Going) -> None:
    """Rows, graph nodes and edges of what goes."""
    cursor = await conn.execute(q.ITEMS, going.params)
    for collection, id_, episode in sorted(await cursor.fetchall(), key=lambda row: row[:2]):
        going.items.setdefault(collection, []).append(id_)
        if episode is not None:
            going.touched.add(episode)
    going.touched |= going.episodes
    cursor = await conn.execute(q.NODES, going.params)
    going.names = _own_names(going) | {name for (name,) in await cursor.fetchall()}
    cursor = await conn.execute(q.EDGES, going.params)
    going.edges = [tuple(row) for row in await cursor.fetchall()]
    cursor = await conn.execute(q.BRANCHES, going.params)
    going.branches = [branch for (branch,) in await cursor.fetchall() if branch]


def _own_names(going: _Going) -> set[str]:
    return {f"memory/{id_}" for id_ in going.entries} | {f"episode/{id_}" for id_ in going.episodes}


async def _ids(conn: Connection, query: str, params: dict[str, Any]) -> set[UUID]:
    cursor = await conn.execute(query, params)
    return {id_ for (id_,) in await cursor.fetchall()}


async def _stood_for(conn: Connection, going: _Going) -> list[reopen.Closed]:
    """What summaries that go stood for, and is still closed in their favour."""
    entries = await _ids(conn, q.STOOD_FOR, going.params)
    found = await reopen.closed(conn, going.repo_id, sorted(entries))
    return [one for one in found if one.ended is not None and one.by in going.entries]


# -- removal ------------------------------------------------------------------------------------------


async def _remove(
    conn: Connection, going: _Going, gone: traces.Gone
) -> tuple[dict[str, int], list[int]]:
    """Rows removed by place, and the segments that are no more."""
    removed: dict[str, int] = {}
    params = going.params
    # A reader of the text index that finds no item leaves the document out: rows go last.
    written, dropped = await segments.forget(
        conn, going.repo_id, b"".join(id_.bytes for id_ in going.rows)
    )
    await drop_segments(conn, "id = ANY(%(ids)s)", {"ids": dropped})
    removed["segments"] = written
    # From here on until this is committed no receipt is kept.
    await conn.execute("SELECT pg_advisory_xact_lock(%s, %s)", (locks.RECALLING, going.repo_id))
    for place, statement in q.RECALLS:
        removed[place] = (await conn.execute(statement, {**gone.params, **params})).rowcount
    for place, statement in (*q.REQUESTS, *q.REMOVALS):
        removed[place] = (await conn.execute(statement, params)).rowcount
    await conn.execute(q.CAUSES, params)
    await conn.execute(q.SUCCESSORS, params)
    for collection, ids in going.items.items():
        table = sql.Identifier("plait", Collection(collection).value)
        query = sql.SQL(q.REMOVE_ITEMS).format(table=table)
        cursor = await conn.execute(query, {"repo": going.repo_id, "items": ids})
        removed[collection] = cursor.rowcount
    return removed, dropped


async def _queue(
    conn: Connection, going: _Going, back: Sequence[UUID], removed: dict[str, int]
) -> int:
    """The events by which the graph follows; the first one's id."""
    cursor = await conn.execute(q.ORPHANS, going.params)
    orphans = {name for (name,) in await cursor.fetchall()}
    removed["shared_nodes"] = len(orphans)
    cursor = await conn.execute(q.UNTITLED, going.params)
    # Removed and there again: the projector makes it anew, with the edges that stay.
    nodes = going.names | orphans | {name for (name,) in await cursor.fetchall()}
    links = [
        (id_, relation, source)
        for id_, relation, source, target, _ in going.edges
        if source not in nodes and target not in nodes
    ]
    event_id = await queue_forget(conn, going.repo_id, sorted(nodes), links)
    owners = {owner for *_, owner in going.edges if owner is not None} - going.episodes
    await conn.execute(q.AGAIN, {"repo": going.repo_id, "owners": sorted(owners)})
    await queue_memories(conn, going.repo_id, back)
    return event_id


async def _record(
    conn: Connection, going: _Going, selector: Selector, receipt: ForgetReceipt, at: datetime
) -> None:
    criteria = {
        "ids": len(selector.ids),
        "source": selector.source,
        "agent_id": selector.agent_id,
        "recorded_from": selector.recorded_from and selector.recorded_from.isoformat(),
        "recorded_to": selector.recorded_to and selector.recorded_to.isoformat(),
    }
    await conn.execute(
        q.RECORD,
        {
            "id": receipt.id,
            "repo": going.repo_id,
            "at": at,
            "selector": Jsonb({key: value for key, value in criteria.items() if value}),
            "entries": list(receipt.entries),
            "episodes": list(receipt.episodes),
            "proof": Jsonb({"removed": dict(receipt.removed), "left": dict(receipt.left)}),
        },
    )
