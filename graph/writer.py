"""Apply deltas to the graph: 500-item transactions, each recorded in the graph itself.

A `PlaitProgress` node a stream of events (a repository's revisions, its episodes) holds the event's
id, its digest and the number of the last batch; every batch checks and advances it in its own
transaction. So a batch is applied exactly once, also when it is repeated after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from neo4j import AsyncManagedTransaction
from neo4j.exceptions import ConstraintError

from graph import plan
from graph.bolt import Bolt, retrying
from graph.changes import DROP_NODES, LOCK, OURS, Changes, rows
from graph.plan import Batch, Step
from graph.schema import CODE, INDEXED
from plait.domain import failpoint
from plait.domain.errors import GraphConflict
from plait.ports import GraphDelta

logger = logging.getLogger(__name__)

_PROGRESS = """
MATCH (p:PlaitProgress {id: $key}) RETURN p.event_id, p.digest, p.batch, p.done, p.fence
"""
# Nothing that a newer claim of the same repository has left behind is begun again.
_FENCED = "WHERE $fence = 0 OR coalesce(p.fence, 0) <= $fence "
_SAME = "CASE WHEN p.event_id = $event_id AND p.digest = $digest THEN true ELSE false END"
_TAKE = """
p.event_id = $event_id, p.digest = $digest, p.repo = $repo,
p.fence = CASE WHEN $fence = 0 THEN coalesce(p.fence, 0) ELSE $fence END
"""
# Repeated by a second applier it finds the event's own record, and leaves that where it is.
_START = f"""
MERGE (p:PlaitProgress {{id: $key}}) {LOCK} {_FENCED}
WITH p, {_SAME} AS same
SET p.batch = CASE WHEN same THEN p.batch ELSE $batch END,
    p.done = CASE WHEN same THEN p.done ELSE false END,
    p.missing = CASE WHEN same THEN p.missing ELSE 0 END, {_TAKE}
"""
# For a delta of the memory layer: begin, advance and finish in one. `was`: transactions of it that
# are in the graph already.
_ENTER = f"""
MERGE (p:PlaitProgress {{id: $key}}) {LOCK} {_FENCED}
WITH p, CASE WHEN p.event_id = $event_id AND p.digest = $digest THEN p.batch ELSE 0 END AS was
SET p.batch = CASE WHEN was > $batch THEN was ELSE $batch END, p.done = $last, {_TAKE}
RETURN was
"""
# Batch -1: the remains of an older event are being deleted. A writer that finds another number deletes nothing.
_WIPING = f"MATCH (p:PlaitProgress {{id: $key}}) {LOCK} WHERE {OURS} AND p.batch = -1 RETURN p.id"
_WIPED = (
    f"MATCH (p:PlaitProgress {{id: $key}}) {LOCK} WHERE {OURS} AND p.batch = -1 SET p.batch = 0"
)
# Returns the old value: a writer that expected another one writes nothing.
_ADVANCE = f"""
MATCH (p:PlaitProgress {{id: $key}}) {LOCK} WHERE {OURS}
WITH p, p.batch AS was SET p.batch = CASE WHEN was = $batch - 1 THEN $batch ELSE was END
RETURN was
"""
_FINISH = """
MATCH (p:PlaitProgress {id: $key}) WHERE p.event_id = $event_id
SET p.done = true, p.number = $number, p.missing = $missing
"""
# The fence stays: a projector that slept through the removal must not bring anything back.
_FORGET = """
MATCH (p:PlaitProgress {repo: $repo})
REMOVE p.repo, p.event_id, p.digest, p.batch, p.done, p.number, p.missing
"""
_ALL_OF = "MATCH (n:`{label}`) WHERE n.repo = $repo RETURN elementId(n)"


class Writer:
    """Applies deltas over one `Bolt`. Remembers nothing between two `apply`s."""

    def __init__(self, bolt: Bolt, *, attempts: int) -> None:
        self._bolt = bolt
        self._attempts = attempts

    async def apply(self, delta: GraphDelta) -> None:
        """See `GraphStore.apply`. Raises: StoreUnavailable, StoreFull, InvalidInput."""
        await _Run(self._bolt, self._attempts, delta).run()


class _Run:
    """One delta on its way."""

    def __init__(self, bolt: Bolt, attempts: int, delta: GraphDelta) -> None:
        self._bolt = bolt
        self._attempts = attempts
        self._delta = delta
        self._batches = plan.batches(delta)
        self._changes = Changes(delta)
        self._event = {
            "key": delta.repo if delta.number or delta.remove_repo else f"{delta.repo}#episodes",
            "event_id": delta.event_id,
            "digest": plan.digest(delta),
            "fence": delta.fence,
        }

    async def run(self) -> None:
        if self._delta.remove_repo:
            await self._start(batch=-1)
            await self._check()
            await self._wipe(INDEXED)
            await self._again((_FORGET, {"repo": self._delta.repo}))
            if not self._batches:
                return
        if not self._delta.number:
            await self._layer()
            return
        first = await self._begin()
        if first is None:
            return
        for number, batch in enumerate(self._batches, 1):
            # Links say how things are now: see `plan.digest`.
            if number >= first or batch.step is Step.WRITE_LINKS:
                await self._transact(partial(self._in, number, batch))
                failpoint.hit("graph.after_batch")
        await self._finish()

    async def _layer(self) -> None:
        """A delta of the memory layer: few transactions, mostly one, that each record themselves."""
        groups = plan.transactions(self._batches)
        for number, group in enumerate(groups, 1):
            await self._transact(partial(self._group, number, len(groups), group))
            failpoint.hit("graph.after_batch")
        if self._changes.missing:
            logger.debug(
                "edges left out: an end is not in the graph",
                extra={"repo": self._delta.repo, "edges": len(self._changes.missing)},
            )

    async def _group(
        self, number: int, last: int, group: Sequence[Batch], tx: AsyncManagedTransaction
    ) -> None:
        failpoint.hit("graph.before_batch")
        self._changes.begin()
        given = {**self._event, "repo": self._delta.repo, "batch": number, "last": number == last}
        found = await rows(tx, _ENTER, given)
        if not found or found[0][0] < number - 1:
            raise self._conflict("another event took its place")
        if found[0][0] >= number:
            return  # an earlier try was committed after all, or the event came twice
        for batch in group:
            await self._changes.make(tx, batch)
        failpoint.hit("graph.in_batch")

    async def _begin(self) -> int | None:
        """The batch to go on with, or None when this event is in the graph already."""
        found = await self._bolt.read(_PROGRESS, key=self._event["key"])
        replaces = bool(found) and self._delta.fresh
        await self._start(batch=-1 if replaces else 0)
        batch, done = await self._check()
        if done:
            return None
        if batch == -1:
            # What an older event left, finished or not, makes way.
            await self._wipe(CODE)
            await self._again((_WIPED, self._event))
            return 1
        return batch + 1

    async def _check(self) -> tuple[int, bool]:
        """`(batch, done)` of this event's record. Raises: GraphConflict, when it is another's."""
        found = await self._bolt.read(_PROGRESS, key=self._event["key"])
        if found:
            event_id, digest, batch, done, fence = found[0]
            ours = (event_id, digest) == (self._event["event_id"], self._event["digest"])
            if ours and self._delta.fence in (0, fence):
                return int(batch), bool(done)
        raise self._conflict("another event took its place")

    async def _start(self, batch: int) -> None:
        await self._again((_START, {**self._event, "repo": self._delta.repo, "batch": batch}))

    async def _finish(self) -> None:
        given = {**self._event, "number": self._delta.number, "missing": len(self._changes.missing)}
        await self._again((_FINISH, given))
        if self._changes.missing:
            logger.warning(
                "edges left out: an end is not in the graph",
                extra={
                    "repo": self._delta.repo,
                    "edges": len(self._changes.missing),
                    "first": sorted(self._changes.missing)[:3],
                },
            )

    async def _again(self, *statements: tuple[str, Mapping[str, Any]]) -> None:
        """Run idempotent `statements` in one transaction, again when the connection is lost."""

        async def work(tx: AsyncManagedTransaction) -> None:
            for text, given in statements:
                await rows(tx, text, given)

        await self._transact(work)

    async def _transact(self, work: Callable[[AsyncManagedTransaction], Awaitable[None]]) -> None:
        async for attempt in retrying(self._attempts, stays=self._bolt.endpoint.stays):
            with attempt:
                try:
                    await self._bolt.transact(work)
                except ConstraintError as exc:
                    # ArcadeDB sees the unique id before it sees that the record was advanced.
                    raise self._conflict(str(exc.message)) from exc

    async def _in(self, number: int, batch: Batch, tx: AsyncManagedTransaction) -> None:
        """One batch in one transaction."""
        failpoint.hit("graph.before_batch")
        await self._batch(number, batch, tx)
        failpoint.hit("graph.in_batch")

    async def _batch(self, number: int, batch: Batch, tx: AsyncManagedTransaction) -> None:
        """What `batch` writes; nothing when an earlier try of it was committed after all."""
        self._changes.begin()
        advance = {**self._event, "batch": number}
        if batch.step is Step.CREATE_NODES:
            if await self._changes.create_nodes(tx, batch.kind, batch.items, advance):
                return
        elif batch.step is Step.CREATE_EDGES and await self._changes.create_edges(
            tx, batch, advance
        ):
            return
        found = await rows(tx, _ADVANCE, advance)
        if not found:
            raise self._conflict("another event took its place")
        if batch.step is not Step.WRITE_LINKS and found[0][0] >= number:
            await self._changes.learn(tx, batch)
        elif batch.step is Step.CREATE_NODES or (
            batch.step is Step.CREATE_EDGES and not self._changes.makes_nothing(batch)
        ):
            raise self._conflict(f"batch {number} made nothing")
        elif batch.step is not Step.CREATE_EDGES:
            await self._changes.make(tx, batch)

    def _conflict(self, what: str) -> GraphConflict:
        return GraphConflict(
            f"another process writes {self._delta.repo!r} to the graph: {what}; try again",
            repository=self._delta.repo,
        )

    # -- removal ------------------------------------------------------------------------------------

    async def _wipe(self, labels: Iterable[str]) -> None:
        """Delete the repository's nodes with `labels`, in batches; safe to repeat."""
        for label in labels:
            found = await self._bolt.read(_ALL_OF.format(label=label), repo=self._delta.repo)
            ids = [row[0] for row in found]
            for start in range(0, len(ids), plan.BATCH_ITEMS):
                part = ids[start : start + plan.BATCH_ITEMS]
                await self._transact(partial(self._wipe_part, part))

    async def _wipe_part(self, ids: list[str], tx: AsyncManagedTransaction) -> None:
        if await rows(tx, _WIPING, self._event):
            await rows(tx, DROP_NODES, {"ids": ids})
