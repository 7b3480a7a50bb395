"""Outbox: what waits to be projected to the graph, one event at a time for each repository.

A claim is a session advisory lock on a connection that this process keeps for it: when the process
dies, however it dies, the server drops the lock and another projector may go on at once.

`repository.graph_number` is the revision the graph shows, `graph_target` the one that a claimed event
moves it to. The target stays with the event until it is done, so a second try computes the same delta
as the first, batch for batch, and can go on where the first one ended.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from plait.domain import failpoint
from plait.domain.errors import PlaitError, RepositoryNotIndexed, StoreUnavailable
from plait.ports import GraphDelta
from vector import delta, locks
from vector import outbox_sql as q
from vector.errors import translated
from vector.pool import Connection, Database

# Seconds before an event that failed is tried again: 1, 2, 4 … with jitter, at most this.
MAX_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class _Claim:
    """An event this process is projecting."""

    event_id: int
    repo_id: int
    repo: str
    kind: str
    episode_id: UUID | None
    attempts: int
    base: int  # what the graph shows
    target: int


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


async def _queue_everything(conn: Connection, repo_id: int) -> None:
    """Queue the graph's removal and then all of it anew, in place of whatever waits."""
    params = {"repo": repo_id}
    await conn.execute("DELETE FROM outbox WHERE repo_id = %(repo)s", params)
    await conn.execute("INSERT INTO outbox (repo_id, kind) VALUES (%(repo)s, 'remove')", params)
    await conn.execute(q.QUEUE_PUBLISHED, params)
    await conn.execute("UPDATE episode SET projected = false WHERE repo_id = %(repo)s", params)
    await conn.execute(q.QUEUE_EPISODES, params)


class Outbox:
    _db: Database
    _claims: dict[int, _Claim]
    _claiming: Connection | None

    async def claim(self) -> GraphDelta | None:
        held = [claim.repo_id for claim in self._claims.values()]
        for repo_id in [row[0] for row in await self._db.rows(q.RUNNABLE, {"held": held})]:
            if not await self._try_lock(repo_id):
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
        async with self._db.transaction() as conn:
            claim = await _head(conn, repo_id)
            while claim is not None and claim.kind == "index" and claim.target <= claim.base:
                # An earlier delta reached this revision, or it was deleted again.
                await conn.execute("DELETE FROM outbox WHERE id = %s", (claim.event_id,))
                claim = await _head(conn, repo_id)
            if claim is None:
                return None
            await conn.execute(
                q.START, {"repo": repo_id, "target": claim.target, "kind": claim.kind}
            )
            who = f"{socket.gethostname()}:{os.getpid()}"
            await conn.execute(
                "UPDATE outbox SET attempts = attempts + 1, claimed_by = %s WHERE id = %s",
                (who, claim.event_id),
            )
        # Committed first: readers see `changing` before the first batch can reach the graph.
        self._claims[claim.event_id] = claim
        try:
            failpoint.hit("outbox.after_claim")
            async with self._db.connection() as conn:
                return await _delta(conn, claim)
        except BaseException:
            del self._claims[claim.event_id]
            raise

    async def done(self, event_id: int) -> None:
        claim = self._claims.pop(event_id, None)
        if claim is None:
            raise PlaitError(f"event {event_id} is not claimed by this process", event=event_id)
        params = {
            "event": event_id,
            "repo": claim.repo_id,
            "target": claim.target,
            "episode": claim.episode_id,
        }

        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                for statement in q.DONE[claim.kind]:
                    await conn.execute(statement, params)

        try:
            await self._db.retry(write)
        finally:
            await self._unlock(claim.repo_id)

    async def failed(self, event_id: int, cause: str, *, permanent: bool) -> None:
        claim = self._claims.pop(event_id, None)
        if claim is None:
            raise PlaitError(f"event {event_id} is not claimed by this process", event=event_id)
        cause = cause.replace("\0", "\ufffd")[:4000]

        async def write(_attempt: int) -> None:
            async with self._db.transaction() as conn:
                if permanent:
                    await _bury(conn, claim, cause)
                else:
                    wait_s = min(MAX_WAIT_S, 2.0**claim.attempts) * random.uniform(0.5, 1.0)  # noqa: S311
                    await conn.execute(q.LATER, {"event": event_id, "cause": cause, "wait": wait_s})

        try:
            await self._db.retry(write)
        finally:
            await self._unlock(claim.repo_id)

    async def waiting(self) -> int:
        return int((await self._db.rows("SELECT count(*) FROM outbox", {}))[0][0])

    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]:
        query = q.EPOCH_NAMED if repos else q.EPOCH_ALL
        ((number, changing),) = await self._db.rows(query, {"repos": list(repos)})
        return int(number), bool(changing)

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
        kept = self._claiming is not None
        try:
            return await locks.try_lock(await self._claim_connection(), locks.PROJECTING, repo_id)
        except StoreUnavailable:
            if not kept or self._claims:
                raise
        await self._close_claims()
        return await locks.try_lock(await self._claim_connection(), locks.PROJECTING, repo_id)

    async def _claim_connection(self) -> Connection:
        """The connection that holds our claims. A new one has no locks; that is safe, since a delta
        that two projectors apply is the same one and the graph counts its batches."""
        if self._claiming is None or self._claiming.closed or self._claiming.broken:
            self._claiming = await self._db.dedicated()
        return self._claiming

    async def _unlock(self, repo_id: int) -> None:
        if self._claiming is None:
            return
        try:
            await locks.unlock(self._claiming, locks.PROJECTING, repo_id)
        except PlaitError:
            # The connection is gone and its locks with it.
            await self._claiming.close()
            self._claiming = None

    async def _close_claims(self) -> None:
        """Give every claim back, as dying would."""
        self._claims.clear()
        if self._claiming is not None:
            await self._claiming.close()
            self._claiming = None


async def _head(conn: Connection, repo_id: int) -> _Claim | None:
    cursor = await conn.execute(q.HEAD, {"repo": repo_id})
    row = await cursor.fetchone()
    if row is None:
        return None
    event_id, repo, kind, episode_id, attempts, due, shown, target, published = row
    if not due:
        return None
    # A try that ended half-way has to be completed to where it was going.
    target = (target or published) if kind == "index" else 0
    return _Claim(event_id, repo_id, repo, kind, episode_id, attempts + 1, shown, target)


async def _delta(conn: Connection, claim: _Claim) -> GraphDelta:
    with translated():
        if claim.kind == "index":
            return await delta.of_index(
                conn, claim.event_id, claim.repo_id, claim.repo, claim.base, claim.target
            )
        if claim.kind == "episode":
            assert claim.episode_id is not None  # a CHECK of the kind's insert
            return await delta.of_episode(
                conn, claim.event_id, claim.repo_id, claim.repo, claim.episode_id, claim.base
            )
        return delta.of_removal(claim.event_id, claim.repo)


async def _bury(conn: Connection, claim: _Claim, cause: str) -> None:
    """Move an event to the dead letters. A graph left half-way is made anew by the next publish, or
    now, when more is waiting that would build on it."""
    params: dict[str, Any] = {"event": claim.event_id, "repo": claim.repo_id, "cause": cause}
    await conn.execute(q.BURY, params)
    if claim.kind == "episode":
        await conn.execute(q.STEADY, params)
        return
    await conn.execute(q.BROKEN, params)
    cursor = await conn.execute(
        "SELECT FROM outbox WHERE repo_id = %(repo)s AND kind = 'index' LIMIT 1", params
    )
    if await cursor.fetchone() is not None:
        await _queue_everything(conn, claim.repo_id)
