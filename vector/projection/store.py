"""Outbox: what waits to be projected to the graph, one event at a time for each repository.

A claim is a session advisory lock on a connection that this process keeps for it: when the process
dies, however it dies, the server drops the lock and another projector may go on at once.

`repository.graph_number` is the revision the graph shows, `graph_target` the one that a claimed event
moves it to. The target stays with the event until it is done, so a second try computes the same delta
as the first, batch for batch, and can go on where the first one ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from plait.domain import failpoint
from plait.domain.errors import (
    InvalidInput,
    PlaitError,
    RepositoryNotIndexed,
    StoreFull,
    StoreUnavailable,
)
from plait.ports import DeadLetter, GraphContents, GraphDelta
from plait.ports.rules import Rules
from vector.connection import locks
from vector.connection.clock import tick
from vector.connection.errors import translated
from vector.connection.pool import Connection, Database
from vector.episodes import links
from vector.episodes.relink import relink
from vector.projection import delta, expected
from vector.projection import sql as q
from vector.projection.layer import NOTHING, Work

logger = logging.getLogger(__name__)

# Seconds before an event that failed is tried again: 1, 2, 4 … with jitter, at most this.
MAX_WAIT_S = 30.0


# Events of one delta: what one graph transaction holds.
BATCH_ITEMS = 500
# Tries of an event whose delta fails by an error that is not ours.
BUG_ATTEMPTS = 3
# Events of a repository that may wait for a graph that nobody asks; more become one (`Outbox.shorten`).
MOST_WAITING = 1_000
MEMORY_KINDS = frozenset({"episode", "memory", "forget"})


@dataclass(frozen=True, slots=True)
class _Claim:
    """What this process is projecting. `ids`: of the events; several only of the memory layer, whose
    `event_id` is their batch."""

    event_id: int
    repo_id: int
    repo: str
    kind: str  # "memory" for all of the memory layer
    ids: tuple[int, ...]
    attempts: int
    base: int  # what the graph shows
    target: int
    fence: int = 0
    work: Work = NOTHING


async def queue_index(conn: Connection, repo_id: int, number: int) -> None:
    """Queue the projection of a revision that the same transaction publishes."""
    cursor = await conn.execute("SELECT graph_broken FROM repository WHERE id = %s", (repo_id,))
    row = await cursor.fetchone()
    if row and row[0]:
        await _queue_everything(conn, repo_id)
        return
    await conn.execute(
        "INSERT INTO outbox (repo_id, kind, number) VALUES (%s, 'index', %s)", (repo_id, number)
    )


async def queue_memories(conn: Connection, repo_id: int, entries: Sequence[UUID]) -> None:
    """Queue the projection of memories that the same transaction stores, changes or closes, and of
    what they say (`memory_edge.entry_id`)."""
    for start in range(0, len(entries), BATCH_ITEMS):
        await conn.execute(
            "INSERT INTO outbox (repo_id, kind, entries) VALUES (%s, 'memory', %s)",
            (repo_id, list(entries[start : start + BATCH_ITEMS])),
        )


async def queue_forget(
    conn: Connection,
    repo_id: int,
    nodes: Sequence[str],
    links: Sequence[tuple[int, str, str]] = (),
) -> int:
    """Queue the removal of nodes (ids without `repo:`, edges go with them) and of links whose ends
    stay, each as (`memory_edge.id`, relation, source). The first event's id; 0 for nothing."""
    names = [*nodes, *(f"link/{id_}/{relation}/{source}" for id_, relation, source in links)]
    first = 0
    for start in range(0, len(names), BATCH_ITEMS):
        cursor = await conn.execute(
            "INSERT INTO outbox (repo_id, kind, names) VALUES (%s, 'forget', %s) RETURNING id",
            (repo_id, names[start : start + BATCH_ITEMS]),
        )
        row = await cursor.fetchone()
        first = first or (int(row[0]) if row else 0)
    return first


async def _queue_everything(conn: Connection, repo_id: int) -> None:
    """Queue the graph's removal and then all of it anew, in place of whatever waits."""
    await _queue_removal(conn, repo_id)
    await _queue_all(conn, repo_id)


async def _queue_removal(conn: Connection, repo_id: int) -> None:
    """In place of whatever waits."""
    # Whoever stores a memory ends first: its event would come before the removal, and what it is about
    # is not to be seen yet.
    await tick(conn, repo_id)
    await conn.execute("DELETE FROM outbox WHERE repo_id = %s", (repo_id,))
    await conn.execute("INSERT INTO outbox (repo_id, kind) VALUES (%s, 'remove')", (repo_id,))


async def _queue_all(conn: Connection, repo_id: int) -> None:
    params = {"repo": repo_id}
    await conn.execute(q.QUEUE_PUBLISHED, params)
    await conn.execute("UPDATE episode SET projected = false WHERE repo_id = %(repo)s", params)
    await conn.execute(q.QUEUE_EPISODES, params)
    await conn.execute(q.QUEUE_MEMORIES, params)
    await conn.execute(q.BURIED_NO_MORE, params)


class Outbox:
    def __init__(self, db: Database, rules: Rules) -> None:
        self._db = db
        self._rules = rules
        self._claims: dict[int, _Claim] = {}
        # Repositories whose lock this process has or asks for: a session may take one lock twice, so it
        # would not keep two tasks of one process apart.
        self._locked: set[int] = set()
        self._claiming: Connection | None = None
        self._connecting = asyncio.Lock()

    async def claim(self) -> GraphDelta | None:
        runnable = await self._db.rows(q.RUNNABLE, {"held": list(self._locked)})
        for repo_id in [row[0] for row in runnable]:
            if repo_id in self._locked or not await self._try_lock(repo_id):
                continue
            try:
                found = await self._claim_locked(repo_id)
            except BaseException:
                await self._unlock(repo_id)
                raise
            if found is not None:
                return found
            await self._unlock(repo_id)
        return None

    async def _claim_locked(self, repo_id: int) -> GraphDelta | None:
        """The delta of the oldest event of `repo_id`, if one is due; the lock is ours."""
        async with self._db.transaction(durable=False) as conn:
            claim = await _head(conn, repo_id)
            while claim is not None and claim.kind == "index" and claim.target <= claim.base:
                # An earlier delta reached this revision, or it was deleted again.
                await conn.execute("DELETE FROM outbox WHERE id = %s", (claim.event_id,))
                claim = await _head(conn, repo_id)
            if claim is None:
                return None
            claim = await _start(conn, claim)
        self._claims[claim.event_id] = claim
        failpoint.hit("outbox.after_claim")
        try:
            if claim.kind == "memory":
                return await self._memory_delta(claim)
            async with self._db.connection() as conn:
                made = await _delta(conn, claim)
            return replace(made, fence=claim.fence, attempt=claim.attempts)
        except InvalidInput as exc:
            await self._fail(claim, f"{exc.reason}: {exc}", permanent=True)
            raise
        except Exception as exc:
            if isinstance(exc, PlaitError):
                self._claims.pop(claim.event_id, None)
            else:  # a bug that these rows meet: it must not hold up what waits behind them
                cause = f"{type(exc).__name__}: {exc}"
                await self._fail(claim, cause, permanent=claim.attempts >= BUG_ATTEMPTS)
            raise
        except BaseException:
            self._claims.pop(claim.event_id, None)
            raise

    async def _memory_delta(self, claim: _Claim) -> GraphDelta:
        """Settle what the events left open, then say how things are, and that the graph changes."""
        # Made again by a second try if it is lost: the commit below is durable, and covers it.
        async with self._db.connection() as conn:
            await relink(conn, claim.repo_id, claim.work.episodes, self._rules)
            await links.resolve(conn, claim.repo_id, claim.work.episodes, self._rules.evidence)
        async with self._db.transaction() as conn:
            with translated():
                made = await delta.of_layer(
                    conn, claim.event_id, claim.repo_id, claim.repo, claim.work
                )
            # Last: readers of the memory layer wait for as short as can be.
            cursor = await conn.execute(q.START_MEMORY, {"repo": claim.repo_id})
            row = await cursor.fetchone()
        assert row is not None  # the row of a repository stays for ever
        return replace(made, fence=row[0], attempt=claim.attempts)

    async def done(self, event_id: int) -> None:
        claim = self._ending(event_id)
        params = {"event": event_id, "repo": claim.repo_id, "target": claim.target}

        async def write(_attempt: int) -> None:
            if claim.kind == "memory":
                async with self._db.connection() as conn:
                    await conn.execute(q.DONE_MEMORY, params)
                return
            async with self._db.transaction() as conn:
                cursor = await conn.execute(q.DELETE, params)
                if await cursor.fetchone() is None:
                    return  # reset, or ended by another after this process had lost its lease
                for statement in q.DONE[claim.kind]:
                    await conn.execute(statement, params)
                if claim.kind == "remove":
                    await _begin_anew(conn, claim.repo_id)

        try:
            await self._db.retry(write)
        finally:
            await self._unlock(claim.repo_id)

    async def release(self, event_id: int) -> None:
        claim = self._claims.pop(event_id, None)
        if claim is not None:
            await self._unlock(claim.repo_id)

    async def failed(self, event_id: int, cause: str, *, permanent: bool) -> bool:
        claim = self._ending(event_id)
        try:
            return await self._fail(claim, cause, permanent=permanent)
        finally:
            await self._unlock(claim.repo_id)

    async def _fail(self, claim: _Claim, cause: str, *, permanent: bool) -> bool:
        self._claims.pop(claim.event_id, None)
        cause = cause.replace("\0", "\ufffd")[:4000]
        split = permanent and len(claim.ids) > 1

        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                if split:
                    await _split(conn, claim, cause)
                elif permanent:
                    await _bury(conn, claim, cause)
                else:
                    # Attempts without end: a graph that is away for hours.
                    longest = min(MAX_WAIT_S, 2.0 ** min(claim.attempts, 10))
                    wait_s = longest * random.uniform(0.5, 1.0)  # noqa: S311
                    given = {"ids": list(claim.ids), "cause": cause, "wait": wait_s}
                    await conn.execute(q.LATER, given)

        await self._db.retry(write)
        return split

    def _ending(self, event_id: int) -> _Claim:
        claim = self._claims.pop(event_id, None)
        if claim is None:
            raise PlaitError(f"event {event_id} is not claimed by this process", event=event_id)
        return claim

    async def settle(self) -> int:
        done = 0
        for (repo_id,) in await self._db.rows(q.UNSETTLED, {}):
            if repo_id in self._locked or not await self._try_lock(repo_id):
                continue  # who projects it settles it
            try:
                await self._settle(repo_id)
            finally:
                await self._unlock(repo_id)
            done += 1
        return done

    async def _settle(self, repo_id: int) -> None:
        """The lock is ours."""
        async with self._db.transaction() as conn:
            cursor = await conn.execute(q.PUBLISHED, {"repo": repo_id})
            published, newer = await cursor.fetchone() or (0, False)
            if newer:
                given = {"repo": repo_id, "target": published}
                await conn.execute(q.REQUEUE_OPEN, given)
                await conn.execute(q.SETTLED_TO, given)
        given = {"repo": repo_id, "limit": BATCH_ITEMS}
        while events := await self._db.rows(q.EPISODES_UNSETTLED, given):
            episodes = tuple(dict.fromkeys(episode for _, episode in events))
            async with self._db.connection() as conn:
                try:
                    await relink(conn, repo_id, episodes, self._rules)
                    await links.resolve(conn, repo_id, episodes, self._rules.evidence)
                except (StoreUnavailable, StoreFull):
                    raise
                except Exception:  # the projector meets it too, and finds the one that is to blame
                    logger.exception("settling episodes failed", extra={"repo_id": repo_id})
                await conn.execute(q.SET_SETTLED, {"ids": [id_ for id_, _ in events]})

    async def shorten(self, most: int = MOST_WAITING) -> int:
        done = 0
        for (repo_id,) in await self._db.rows(q.TOO_LONG, {"most": most}):
            if repo_id in self._locked or not await self._try_lock(repo_id):
                continue
            try:
                async with self._db.transaction() as conn:
                    await _queue_removal(conn, repo_id)
                    await conn.execute(q.ANEW, {"repo": repo_id})
            finally:
                await self._unlock(repo_id)
            done += 1
        return done

    async def last_event(self) -> int:
        return int((await self._db.rows(q.LAST_EVENT, {}))[0][0])

    async def behind(self, repos: Sequence[str], last: int) -> bool:
        query = q.BEHIND_NAMED if repos else q.BEHIND_ALL
        return bool((await self._db.rows(query, {"repos": list(repos), "last": last}))[0][0])

    async def waiting(self, repos: Sequence[str] = ()) -> int:
        query = q.WAITING_NAMED if repos else "SELECT count(*) FROM outbox"
        return int((await self._db.rows(query, {"repos": list(repos)}))[0][0])

    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]:
        query = q.EPOCH_NAMED if repos else q.EPOCH
        ((number, changing),) = await self._db.rows(query, {"repos": list(repos)})
        return int(number), bool(changing)

    async def expected(self, repo: str) -> GraphContents:
        return await expected.of_repository(self._db, repo)

    async def dead(self, repos: Sequence[str]) -> list[DeadLetter]:
        query = q.DEAD_NAMED if repos else q.DEAD_ALL
        return [DeadLetter(*row) for row in await self._db.rows(query, {"repos": list(repos)})]

    async def revive(self, repos: Sequence[str]) -> int:
        async def write(_attempt: int) -> int:
            revived = 0
            async with self._db.transaction() as conn:
                given = {"repos": list(repos), "all": not repos}
                cursor = await conn.execute(q.DEAD_REPOS, given)
                for repo_id, whole, count in await cursor.fetchall():
                    if whole:
                        await _queue_everything(conn, repo_id)
                    else:
                        await conn.execute(q.REVIVE, {"repo": repo_id})
                    revived += count
            return revived

        return await self._db.retry(write)

    async def reset(self, repo: str) -> None:
        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                cursor = await conn.execute(
                    "SELECT id FROM repository WHERE name = %s FOR UPDATE", (repo,)
                )
                row = await cursor.fetchone()
                if row is None:
                    raise RepositoryNotIndexed(repo)
                await _queue_everything(conn, row[0])

        await self._db.retry(write)

    async def _try_lock(self, repo_id: int) -> bool:
        """Once more on a new connection when the one at hand was lost while it lay idle."""
        had_connection = self._claiming is not None
        self._locked.add(repo_id)
        taken = False
        try:
            try:
                conn = await self._claim_connection()
                taken = await locks.try_lock(conn, locks.PROJECTING, repo_id)
            except StoreUnavailable:
                if not had_connection or self._claims:
                    raise
                await self.close()
                self._locked.add(repo_id)
                conn = await self._claim_connection()
                taken = await locks.try_lock(conn, locks.PROJECTING, repo_id)
        except asyncio.CancelledError:
            # The server may have given the lock already, and would keep it as long as the connection.
            await asyncio.shield(self._unlock(repo_id))
            raise
        finally:
            if not taken:
                self._locked.discard(repo_id)
        return taken

    async def _claim_connection(self) -> Connection:
        """The connection that holds our claims. A new one has no locks; that is safe, since a delta
        that two projectors apply is the same one and the graph counts its batches."""
        # Of two that were opened at once, one would be lost, and its lock with it.
        async with self._connecting:
            if self._claiming is None or self._claiming.closed or self._claiming.broken:
                self._claiming = await self._db.dedicated()
            return self._claiming

    async def _unlock(self, repo_id: int) -> None:
        conn = self._claiming
        try:
            if conn is not None:
                await locks.unlock(conn, locks.PROJECTING, repo_id)
        except PlaitError:
            # The connection is gone and its locks with it.
            if conn is not None:
                await conn.close()
            self._claiming = None if self._claiming is conn else self._claiming
        finally:
            self._locked.discard(repo_id)

    async def refreshed(self) -> None:
        """The server answers again after it did not."""
        if self._claiming is not None:
            # Who waits on it hears that it is closed; its locks are the server's to drop.
            await self._claiming.close()

    async def close(self) -> None:
        """Release every claim, as dying would."""
        self._claims.clear()
        self._locked.clear()
        conn, self._claiming = self._claiming, None
        if conn is not None:
            await locks.release_all(conn)


async def _head(conn: Connection, repo_id: int) -> _Claim | None:
    """The oldest event of a repository, if it is due, with those that go with it."""
    cursor = await conn.execute(q.HEAD, {"repo": repo_id})
    row = await cursor.fetchone()
    if row is None:
        return None
    event_id, repo, kind, attempts, batch, due, shown, target, published = row
    if not due:
        return None
    if kind not in MEMORY_KINDS:
        # A try that ended half-way has to be completed to where it was going.
        target = (target or published) if kind == "index" else 0
        return _Claim(event_id, repo_id, repo, kind, (event_id,), attempts + 1, shown, target)
    if batch is None:
        batch = event_id
        ids = await _batch(conn, repo_id)
        await conn.execute(q.JOIN, {"batch": batch, "ids": ids})
    return _Claim(batch, repo_id, repo, "memory", (), attempts + 1, shown, 0)


async def _batch(conn: Connection, repo_id: int) -> list[int]:
    """The events at the head that one delta will cover; the first one however large it is."""
    cursor = await conn.execute(q.QUEUE, {"repo": repo_id})
    ids: list[int] = []
    items = 0
    for id_, kind, batch, due, weight in await cursor.fetchall():
        items += weight
        if kind not in MEMORY_KINDS or batch is not None or not due:
            break
        if ids and items > BATCH_ITEMS:
            break
        ids.append(id_)
    return ids


async def _start(conn: Connection, claim: _Claim) -> _Claim:
    """`claim` written down: its events are at work. Of code also that the graph changes, durably and
    before the first batch can reach it."""
    who = f"{socket.gethostname()}:{os.getpid()}"
    given = {"repo": claim.repo_id, "target": claim.target, "kind": claim.kind}
    if claim.kind != "memory":
        await conn.execute("SET LOCAL synchronous_commit = on")
        cursor = await conn.execute(q.START, given)
        row = await cursor.fetchone()
        assert row is not None  # the row of a repository stays for ever
        await conn.execute(
            "UPDATE outbox SET attempts = attempts + 1, claimed_by = %s WHERE id = %s",
            (who, claim.event_id),
        )
        return replace(claim, fence=row[0])
    cursor = await conn.execute(q.MEMBERS, {**given, "batch": claim.event_id, "who": who})
    rows = sorted(await cursor.fetchall())
    work = Work(
        tuple(dict.fromkeys(row[1] for row in rows if row[1] is not None)),
        tuple(dict.fromkeys(entry for row in rows for entry in row[2] or ())),
        tuple(dict.fromkeys(name for row in rows for name in row[3] or ())),
    )
    return replace(claim, ids=tuple(row[0] for row in rows), work=work)


async def _begin_anew(conn: Connection, repo_id: int) -> None:
    """The graph is empty because too much had waited (`Outbox.shorten`): all that there is now follows, in place
    of what came meanwhile."""
    cursor = await conn.execute(q.WAS_ANEW, {"repo": repo_id})
    if await cursor.fetchone() is None:
        return
    await tick(conn, repo_id)
    await conn.execute("DELETE FROM outbox WHERE repo_id = %s", (repo_id,))
    await _queue_all(conn, repo_id)


async def _delta(conn: Connection, claim: _Claim) -> GraphDelta:
    with translated():
        if claim.kind == "index":
            return await delta.of_index(
                conn, claim.event_id, claim.repo_id, claim.repo, claim.base, claim.target
            )
        return delta.of_removal(claim.event_id, claim.repo)


async def _split(conn: Connection, claim: _Claim, cause: str) -> None:
    """Two batches of one: the one that holds what is to blame is cut again."""
    middle = len(claim.ids) // 2
    for half in (claim.ids[:middle], claim.ids[middle:]):
        await conn.execute(q.SPLIT, {"batch": half[0], "ids": list(half), "cause": cause})


async def _bury(conn: Connection, claim: _Claim, cause: str) -> None:
    """Move an event to the dead letters. A graph left half-way is made anew by the next publish, or
    now, when more is waiting that would build on it."""
    params: dict[str, Any] = {"event": claim.ids[0], "repo": claim.repo_id, "cause": cause}
    cursor = await conn.execute(q.BURY, params)
    if await cursor.fetchone() is None:
        return  # reset, or ended by another
    if claim.kind == "memory":
        await conn.execute(q.STEADY, params)
        return
    await conn.execute(q.BROKEN, params)
    cursor = await conn.execute(
        "SELECT FROM outbox WHERE repo_id = %(repo)s AND kind = 'index' LIMIT 1", params
    )
    if await cursor.fetchone() is not None:
        await _queue_everything(conn, claim.repo_id)
