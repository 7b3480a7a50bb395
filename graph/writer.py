"""Apply deltas to the graph: 500-item transactions, each recorded in the graph itself.

A `PlaitProgress` node a stream of events (a repository's revisions, its episodes) holds the event's
id, its digest and the number of the last batch; every batch checks and advances it in its own
transaction. So a batch is applied exactly once, whoever repeats it and whatever was killed between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from neo4j import AsyncManagedTransaction
from neo4j.exceptions import ConstraintError

from graph import plan
from graph.bolt import Bolt, retrying
from graph.plan import Batch, Step
from graph.schema import CODE, INDEXED, LABELS
from plait.domain import failpoint
from plait.domain.errors import GraphConflict
from plait.domain.graph import Edge, Label, Node
from plait.ports import GraphDelta

logger = logging.getLogger(__name__)

_PROGRESS = "MATCH (p:PlaitProgress {id: $key}) RETURN p.event_id, p.digest, p.batch, p.done"
# Each of these first writes `touched`: that takes the record's lock on Neo4j, where a value read
# before it may be stale, and makes two writers conflict on ArcadeDB.
_LOCK = "SET p.touched = coalesce(p.touched, 0) + 1 WITH p "
_OURS = "p.event_id = $event_id AND p.digest = $digest "
# Repeated by a second applier it finds the event's own record, and leaves that alone.
_START = f"""
MERGE (p:PlaitProgress {{id: $key}}) {_LOCK}
WHERE p.event_id IS NULL OR p.event_id <> $event_id OR p.digest <> $digest
SET p.event_id = $event_id, p.digest = $digest, p.batch = $batch, p.done = false, p.missing = 0,
    p.repo = $repo
"""
# Batch -1: what an older event left is being deleted. Whoever finds another batch deletes nothing.
_WIPING = f"MATCH (p:PlaitProgress {{id: $key}}) {_LOCK} WHERE {_OURS} AND p.batch = -1 RETURN p.id"
_WIPED = (
    f"MATCH (p:PlaitProgress {{id: $key}}) {_LOCK} WHERE {_OURS} AND p.batch = -1 SET p.batch = 0"
)
# The old value comes back: whoever finds another one than expected writes nothing.
_ADVANCE = f"""
MATCH (p:PlaitProgress {{id: $key}}) {_LOCK} WHERE {_OURS}
WITH p, p.batch AS was SET p.batch = CASE WHEN was = $batch - 1 THEN $batch ELSE was END
RETURN was
"""
# The same before a bulk CREATE, which it leaves without a row when there is nothing to do: one
# round trip less, a tenth of the client's CPU.
_ADVANCE_INTO = f"""
MATCH (p:PlaitProgress {{id: $key}}) {_LOCK} WHERE {_OURS} AND p.batch = $batch - 1
SET p.batch = $batch WITH p
"""
_FINISH = """
MATCH (p:PlaitProgress {id: $key}) WHERE p.event_id = $event_id
SET p.done = true, p.number = $number, p.missing = $missing
"""
_FORGET = "MATCH (p:PlaitProgress {repo: $repo}) DELETE p"
_NEW_NODES = "UNWIND $rows AS r CREATE (n:{labels} {map}) RETURN collect(elementId(n)) AS ids"
_NEW_NODES_MORE = (
    "UNWIND $rows AS r CREATE (n:{labels} {map}) SET n += r[8] RETURN collect(elementId(n)) AS ids"
)
_SET_NODES = """
UNWIND $rows AS r MATCH (n) WHERE elementId(n) = r[9] SET n = {map} SET n += r[8]
"""
_RELABEL = """
UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i REMOVE n:{old} SET n:{new}
"""
_FIND = "UNWIND $ids AS i MATCH (n:`{label}` {{id: i}}) RETURN i, elementId(n), labels(n)"
_NEW_EDGES = """
UNWIND $rows AS r MATCH (a) WHERE elementId(a) = r[0]
UNWIND r[1] AS t MATCH (b) WHERE elementId(b) = t[0]
CREATE (a)-[:`{relation}` {map}]->(b) RETURN count(*) AS made
"""
_BARE = "{recorded_from: $now}"
_BOUND = "{lines: t[1], resolver: t[2], confidence: t[3], recorded_from: $now}"
# All edges are found before the first is deleted: ArcadeDB walks a node's edges lazily, and a delete
# may take the block away under the walk ("Record not found").
_DROP_EDGES = """
UNWIND $rows AS r MATCH (a)-[e:`{relation}`]->(b)
WHERE elementId(a) = r[0] AND elementId(b) = r[1]
WITH collect(e) AS found UNWIND found AS e DELETE e
"""
_DROP_NODES = "UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i DETACH DELETE n"
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
    """One delta on its way. `ids`: node id → the server's id, learnt in this run, never stored."""

    def __init__(self, bolt: Bolt, attempts: int, delta: GraphDelta) -> None:
        self._bolt = bolt
        self._attempts = attempts
        self._delta = delta
        self._batches = plan.batches(delta)
        self._ids: dict[str, str] = {}
        self._missing: set[tuple[str, str, str]] = set()
        self._now = int(time.time() * 1000)
        self._event = {
            "key": delta.repo if delta.number or delta.remove_repo else f"{delta.repo}#episodes",
            "event_id": delta.event_id,
            "digest": plan.digest(delta),
        }

    async def run(self) -> None:
        if self._delta.remove_repo:
            await self._start(batch=-1)
            await self._wipe(INDEXED)
            await self._again((_FORGET, {"repo": self._delta.repo}))
            if not self._batches:
                return
        first = await self._begin()
        if first is None:
            return
        for number, batch in enumerate(self._batches, 1):
            if number >= first:
                await self._transact(partial(self._in, number, batch))
                failpoint.hit("graph.after_batch")
        await self._finish()

    async def _begin(self) -> int | None:
        """The batch to go on with, or None when this event is in the graph already."""
        found = await self._bolt.read(_PROGRESS, key=self._event["key"])
        replaces = bool(found) and self._delta.fresh and self._delta.number > 0
        await self._start(batch=-1 if replaces else 0)
        event_id, digest, batch, done = (await self._bolt.read(_PROGRESS, key=self._event["key"]))[
            0
        ]
        if (event_id, digest) != (self._event["event_id"], self._event["digest"]):
            raise self._conflict("another event took its place")
        if done:
            return None
        if batch == -1:
            # What an older event left, finished or not, makes way.
            await self._wipe(CODE)
            await self._again((_WIPED, self._event))
            return 1
        return int(batch) + 1

    async def _start(self, batch: int) -> None:
        await self._again((_START, {**self._event, "repo": self._delta.repo, "batch": batch}))

    async def _finish(self) -> None:
        given = {**self._event, "number": self._delta.number, "missing": len(self._missing)}
        await self._again((_FINISH, given))
        if self._missing:
            logger.warning(
                "edges left out: an end is not in the graph",
                extra={
                    "repo": self._delta.repo,
                    "edges": len(self._missing),
                    "first": sorted(self._missing)[:3],
                },
            )

    async def _again(self, *statements: tuple[str, Mapping[str, Any]]) -> None:
        """Run idempotent `statements` in one transaction, again when the connection is lost."""

        async def work(tx: AsyncManagedTransaction) -> None:
            for text, given in statements:
                await _rows(tx, text, given)

        await self._transact(work)

    async def _transact(self, work: Callable[[AsyncManagedTransaction], Awaitable[None]]) -> None:
        async for attempt in retrying(self._attempts):
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
        advance = {**self._event, "batch": number}
        if batch.step is Step.CREATE_NODES:
            if await self._create_nodes(tx, batch.kind, batch.items, advance):
                return
        elif batch.step is Step.CREATE_EDGES and await self._create_edges(tx, batch, advance):
            return
        rows = await _rows(tx, _ADVANCE, advance)
        if not rows:
            raise self._conflict("another event took its place")
        if rows[0][0] >= number:
            await self._learn(tx, batch)
            return
        match batch.step:
            case Step.DROP_EDGES:
                await self._drop_edges(tx, batch)
            case Step.DROP_NODES:
                await self._locate(tx, batch.items)
                ids = [self._ids.pop(id_) for id_ in batch.items if id_ in self._ids]
                await _rows(tx, _DROP_NODES, {"ids": ids})
            case Step.UPSERT_NODES:
                await self._upsert_nodes(tx, batch.kind, batch.items)
            case Step.CREATE_EDGES if not self._rows_of(batch):
                pass  # no edge of the batch has both its ends
            case _:
                raise self._conflict(f"batch {number} made nothing")

    def _conflict(self, what: str) -> GraphConflict:
        return GraphConflict(
            f"another process writes {self._delta.repo!r} to the graph: {what}; try again",
            repository=self._delta.repo,
        )

    # -- nodes ------------------------------------------------------------------------------------

    async def _create_nodes(
        self,
        tx: AsyncManagedTransaction,
        label: str,
        nodes: Sequence[Node],
        advance: Mapping[str, Any] | None = None,
    ) -> bool:
        """Create `nodes`, and advance the record in the same statement. False: it was not there to."""
        extra = self._delta.properties
        rows = [plan.node_row(node) for node in nodes]
        text = _NEW_NODES
        if any(node.id in extra for node in nodes):
            text = _NEW_NODES_MORE
            for row, node in zip(rows, nodes, strict=True):
                row.append(dict(extra.get(node.id, {})))
        text = text.replace("{labels}", LABELS[label]).replace("{map}", plan.NODE_MAP)
        given = {"rows": rows, "repo": self._delta.repo, **(advance or {})}
        ((made,),) = await _rows(tx, (_ADVANCE_INTO if advance else "") + text, given)
        if not made:
            return False
        # Rows are created, and collected, in the order of UNWIND.
        self._ids.update(zip((node.id for node in nodes), made, strict=True))
        return True

    async def _upsert_nodes(
        self, tx: AsyncManagedTransaction, label: str, nodes: Sequence[Node]
    ) -> None:
        wanted = {Label.FUNCTION, Label.TEST} if label == Label.TEST else {Label(label)}
        found = await self._find(tx, [node.id for node in nodes])
        relabel: dict[tuple[str, ...], list[str]] = {}
        for server_id, labels in found.values():
            if set(labels) != wanted:
                relabel.setdefault(tuple(sorted(labels)), []).append(server_id)
        for had, ids in relabel.items():
            old = ":".join(f"`{one}`" for one in had)
            text = _RELABEL.replace("{old}", old).replace("{new}", LABELS[label])
            await _rows(tx, text, {"ids": ids})
        if relabel:  # ArcadeDB moves a relabelled node: its server id changes
            found = await self._find(tx, [node.id for node in nodes])
        self._ids.update({id_: server_id for id_, (server_id, _) in found.items()})
        rows = [
            [
                *plan.node_row(node),
                dict(self._delta.properties.get(node.id, {})),
                self._ids[node.id],
            ]
            for node in nodes
            if node.id in found
        ]
        if rows:
            text = _SET_NODES.replace("{map}", plan.NODE_MAP)
            await _rows(tx, text, {"rows": rows, "repo": self._delta.repo})
        if new := [node for node in nodes if node.id not in found]:
            await self._create_nodes(tx, label, new)

    async def _find(
        self, tx: AsyncManagedTransaction, ids: Sequence[str]
    ) -> dict[str, tuple[str, list[str]]]:
        """Server id and labels of those of `ids` that exist, whatever their label."""
        found: dict[str, tuple[str, list[str]]] = {}
        left = list(dict.fromkeys(ids))
        for label in INDEXED:
            if not left:
                break
            for id_, server_id, labels in await _rows(tx, _FIND.format(label=label), {"ids": left}):
                found[id_] = (server_id, labels)
            left = [id_ for id_ in left if id_ not in found]
        return found

    async def _locate(self, tx: AsyncManagedTransaction, ids: Iterable[str]) -> None:
        """Learn the server ids of those of `ids` that exist; what is known is not asked again."""
        if unknown := {id_ for id_ in ids if id_ not in self._ids}:
            found = await self._find(tx, sorted(unknown))
            self._ids.update({id_: server_id for id_, (server_id, _) in found.items()})

    async def _learn(self, tx: AsyncManagedTransaction, batch: Batch) -> None:
        """After a commit whose answer was lost: the ids it gave."""
        if batch.step in (Step.CREATE_NODES, Step.UPSERT_NODES):
            for node in batch.items:
                self._ids.pop(node.id, None)
            await self._locate(tx, [node.id for node in batch.items])

    # -- edges --------------------------------------------------------------------------------------

    async def _create_edges(
        self, tx: AsyncManagedTransaction, batch: Batch, advance: Mapping[str, Any]
    ) -> bool:
        """As `_create_nodes`. An edge without its ends is left out, counted and logged."""
        await self._locate_ends(tx, batch.items)
        rows = self._rows_of(batch)
        if not rows:
            return False
        shape = _BARE if plan.is_bare(batch.items) else _BOUND
        text = _NEW_EDGES.replace("{relation}", batch.kind).replace("{map}", shape)
        given = {"rows": rows, "now": self._now, **advance}
        ((made,),) = await _rows(tx, _ADVANCE_INTO + text, given)
        if made and made != sum(len(targets) for _, targets in rows):
            raise self._conflict("nodes went away")
        return bool(made)

    def _rows_of(self, batch: Batch) -> list[list[Any]]:
        edges: Sequence[Edge] = batch.items
        rows, missing = plan.edge_rows(edges, self._ids)
        self._missing |= {(edge.relation, edge.source, edge.target) for edge in missing}
        return rows

    async def _drop_edges(self, tx: AsyncManagedTransaction, batch: Batch) -> None:
        await self._locate_ends(tx, batch.items)
        ids = self._ids
        rows = [
            [ids[edge.source], ids[edge.target]]
            for edge in batch.items
            if edge.source in ids and edge.target in ids
        ]
        if rows:
            await _rows(tx, _DROP_EDGES.replace("{relation}", batch.kind), {"rows": rows})

    async def _locate_ends(self, tx: AsyncManagedTransaction, edges: Sequence[Edge]) -> None:
        known = self._ids
        if any(edge.source not in known or edge.target not in known for edge in edges):
            await self._locate(tx, [end for edge in edges for end in (edge.source, edge.target)])

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
        if await _rows(tx, _WIPING, self._event):
            await _rows(tx, _DROP_NODES, {"ids": ids})


async def _rows(
    tx: AsyncManagedTransaction, text: str, given: Mapping[str, Any]
) -> list[list[Any]]:
    return await (await tx.run(text, dict(given))).values()
