"""What a delta's batches do inside a transaction: nodes, edges and links, in the graph's own ids.

The server's ids of nodes are learnt in one run and never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neo4j import AsyncManagedTransaction

from graph import plan
from graph.plan import Batch, Step
from graph.schema import INDEXED, LABELS
from plait.domain.errors import GraphConflict
from plait.domain.graph import Edge, Label, Link, Node, link_properties
from plait.ports import GraphDelta

# A `PlaitProgress` record's lock and owner. Each statement first writes `touched`: that takes the lock on
# Neo4j, where a value read before it may be stale, and makes two writers conflict on ArcadeDB.
LOCK = "SET p.touched = coalesce(p.touched, 0) + 1 WITH p "
OURS = "p.event_id = $event_id AND p.digest = $digest AND ($fence = 0 OR p.fence = $fence) "
# The same before a bulk CREATE, which it leaves without a row when there is nothing to do: one
# round trip less, a tenth of the client's CPU.
_ADVANCE_INTO = f"""
MATCH (p:PlaitProgress {{id: $key}}) {LOCK} WHERE {OURS} AND p.batch = $batch - 1
SET p.batch = $batch WITH p
"""
_NEW_NODES = "UNWIND $rows AS r CREATE (n:{labels} {map}) RETURN collect(elementId(n)) AS ids"
_NEW_NODES_MORE = (
    "UNWIND $rows AS r CREATE (n:{labels} {map}) SET n += r[8] RETURN collect(elementId(n)) AS ids"
)
# A node with a version, as a Memory, is not overwritten by an older version.
_SET_NODES = """
UNWIND $rows AS r MATCH (n) WHERE elementId(n) = r[9] AND coalesce(n.state, 0) <= r[10]
SET n = {map} SET n += r[8]
"""
_NEWEST = 2**62
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
WHERE elementId(a) = r[0] AND elementId(b) = r[1] AND e.link_id IS NULL
WITH collect(e) AS found UNWIND found AS e DELETE e
"""
# A link's source has few edges of its relation: an episode, a diff, a memory. An edge between the same
# two nodes that code made has no `link_id`, and is another one.
_SET_LINKS = """
UNWIND $rows AS r MATCH (a) WHERE elementId(a) = r[0]
MATCH (a)-[e:`{relation}`]->() WHERE e.link_id = r[2]
SET e += r[3] RETURN DISTINCT r[2]
"""
_NEW_LINKS = """
UNWIND $rows AS r MATCH (a) WHERE elementId(a) = r[0] MATCH (b) WHERE elementId(b) = r[1]
CREATE (a)-[e:`{relation}`]->(b) SET e += r[3] RETURN count(*) AS made
"""
_DROP_LINKS = """
UNWIND $rows AS r MATCH (a)-[e:`{relation}`]->() WHERE elementId(a) = r[0] AND e.link_id = r[1]
WITH collect(e) AS found UNWIND found AS e DELETE e
"""
DROP_NODES = "UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i DETACH DELETE n"


class Changes:
    """One delta's changes. `ids`: node id → the server's id."""

    def __init__(self, delta: GraphDelta) -> None:
        self._delta = delta
        self._ids: dict[str, str] = {}
        self._new: set[str] = set()  # nodes that this transaction made
        self.missing: set[tuple[str, str, str]] = set()

    def begin(self) -> None:
        """A transaction begins, or begins again."""
        self._new.clear()

    async def make(self, tx: AsyncManagedTransaction, batch: Batch) -> None:
        """Apply all changes of `batch`."""
        match batch.step:
            case Step.DROP_EDGES:
                await self._drop_edges(tx, batch)
            case Step.DROP_LINKS:
                await self._drop_links(tx, batch.kind, batch.items)
            case Step.DROP_NODES:
                await self._drop_nodes(tx, batch.items)
            case Step.CREATE_NODES:
                await self.create_nodes(tx, batch.kind, batch.items)
            case Step.UPSERT_NODES:
                await self._upsert_nodes(tx, batch.kind, batch.items)
            case Step.CREATE_EDGES:
                await self.create_edges(tx, batch)
            case Step.WRITE_LINKS:
                await self._write_links(tx, batch.kind, batch.items)

    async def learn(self, tx: AsyncManagedTransaction, batch: Batch) -> None:
        """After a commit whose answer was lost: the ids it gave."""
        if batch.step in (Step.CREATE_NODES, Step.UPSERT_NODES):
            for node in batch.items:
                self._ids.pop(node.id, None)
            await self._locate(tx, [node.id for node in batch.items])

    # -- nodes ------------------------------------------------------------------------------------

    async def create_nodes(
        self,
        tx: AsyncManagedTransaction,
        label: str,
        nodes: Sequence[Node],
        advance: Mapping[str, Any] | None = None,
    ) -> bool:
        """Create `nodes`, and advance the record in the same statement. False: it was not there to."""
        extra = self._delta.properties
        rows_ = [plan.node_row(node) for node in nodes]
        text = _NEW_NODES
        if any(node.id in extra for node in nodes):
            text = _NEW_NODES_MORE
            for row, node in zip(rows_, nodes, strict=True):
                row.append(dict(extra.get(node.id, {})))
        text = text.replace("{labels}", LABELS[label]).replace("{map}", plan.NODE_MAP)
        given = {"rows": rows_, "repo": self._delta.repo, **(advance or {})}
        ((made,),) = await rows(tx, (_ADVANCE_INTO if advance else "") + text, given)
        if not made:
            return False
        # Rows are created, and collected, in the order of UNWIND.
        self._ids.update(zip((node.id for node in nodes), made, strict=True))
        self._new.update(node.id for node in nodes)
        return True

    async def _upsert_nodes(
        self, tx: AsyncManagedTransaction, label: str, nodes: Sequence[Node]
    ) -> None:
        found = await self._relabelled(tx, label, [node.id for node in nodes])
        self._ids.update({id_: server_id for id_, (server_id, _) in found.items()})
        rows_ = [
            [
                *plan.node_row(node),
                dict(self._delta.properties.get(node.id, {})),
                self._ids[node.id],
                self._delta.properties.get(node.id, {}).get(plan.STATE, _NEWEST),
            ]
            for node in nodes
            if node.id in found
        ]
        if rows_:
            text = _SET_NODES.replace("{map}", plan.NODE_MAP)
            await rows(tx, text, {"rows": rows_, "repo": self._delta.repo})
        if new := [node for node in nodes if node.id not in found]:
            await self.create_nodes(tx, label, new)

    async def _relabelled(
        self, tx: AsyncManagedTransaction, label: str, ids: Sequence[str]
    ) -> dict[str, tuple[str, list[str]]]:
        """As `_find`, once the nodes that have other labels bear `label`."""
        labels = {Label.FUNCTION, Label.TEST} if label == Label.TEST else {Label(label)}
        found = await self._find(tx, ids)
        others: dict[tuple[str, ...], list[str]] = {}
        for server_id, had in found.values():
            if set(had) != labels:
                others.setdefault(tuple(sorted(had)), []).append(server_id)
        for old_labels, server_ids in others.items():
            old = ":".join(f"`{one}`" for one in old_labels)
            text = _RELABEL.replace("{old}", old).replace("{new}", LABELS[label])
            await rows(tx, text, {"ids": server_ids})
        # ArcadeDB moves a relabelled node: its server id changes.
        return await self._find(tx, ids) if others else found

    async def _find(
        self, tx: AsyncManagedTransaction, ids: Sequence[str]
    ) -> dict[str, tuple[str, list[str]]]:
        """Server id and labels of those of `ids` that exist, whatever their label."""
        found: dict[str, tuple[str, list[str]]] = {}
        likely: dict[tuple[Label, ...], list[str]] = {}
        for id_ in dict.fromkeys(ids):
            likely.setdefault(plan.labels_of(self._delta.repo, id_), []).append(id_)
        for labels, some in likely.items():
            # What episodes say of code that is not there would be looked for everywhere, in vain.
            rest = [label for label in INDEXED if label not in labels] if self._delta.number else []
            left = some
            for label in (*labels, *rest):
                if not left:
                    break
                for id_, server_id, has in await rows(tx, _FIND.format(label=label), {"ids": left}):
                    found[id_] = (server_id, has)
                left = [id_ for id_ in left if id_ not in found]
        return found

    async def _locate(self, tx: AsyncManagedTransaction, ids: Iterable[str]) -> None:
        """Look up the server ids of those of `ids` that exist; known ones are not queried again."""
        if unknown := {id_ for id_ in ids if id_ not in self._ids}:
            found = await self._find(tx, sorted(unknown))
            self._ids.update({id_: server_id for id_, (server_id, _) in found.items()})

    async def _drop_nodes(self, tx: AsyncManagedTransaction, ids: Sequence[str]) -> None:
        await self._locate(tx, ids)
        server_ids = [self._ids.pop(id_) for id_ in ids if id_ in self._ids]
        if server_ids:
            await rows(tx, DROP_NODES, {"ids": server_ids})

    # -- edges --------------------------------------------------------------------------------------

    async def create_edges(
        self, tx: AsyncManagedTransaction, batch: Batch, advance: Mapping[str, Any] | None = None
    ) -> bool:
        """As `create_nodes`. An edge without its ends is left out and counted."""
        await self._locate_ends(tx, batch.items)
        rows_ = self._rows_of(batch)
        if not rows_:
            return False
        shape = _BARE if plan.is_bare(batch.items) else _BOUND
        text = _NEW_EDGES.replace("{relation}", batch.kind).replace("{map}", shape)
        given = {"rows": rows_, "now": self._delta.recorded_from, **(advance or {})}
        ((made,),) = await rows(tx, (_ADVANCE_INTO if advance else "") + text, given)
        if made and made != sum(len(targets) for _, targets in rows_):
            raise GraphConflict(
                f"another process writes {self._delta.repo!r} to the graph: nodes went away; try again",
                repository=self._delta.repo,
            )
        return bool(made)

    def makes_nothing(self, batch: Batch) -> bool:
        """Whether no edge of the batch has both its ends."""
        return batch.step is Step.CREATE_EDGES and not self._rows_of(batch)

    def _rows_of(self, batch: Batch) -> list[list[Any]]:
        edges: Sequence[Edge] = batch.items
        rows_, missing = plan.edge_rows(edges, self._ids)
        self.missing |= {(edge.relation, edge.source, edge.target) for edge in missing}
        return rows_

    async def _drop_edges(self, tx: AsyncManagedTransaction, batch: Batch) -> None:
        await self._locate_ends(tx, batch.items)
        ids = self._ids
        rows_ = [
            [ids[edge.source], ids[edge.target]]
            for edge in batch.items
            if edge.source in ids and edge.target in ids
        ]
        if rows_:
            await rows(tx, _DROP_EDGES.replace("{relation}", batch.kind), {"rows": rows_})

    async def _locate_ends(
        self, tx: AsyncManagedTransaction, edges: Sequence[Edge] | Sequence[Link]
    ) -> None:
        known = self._ids
        if any(edge.source not in known or edge.target not in known for edge in edges):
            await self._locate(tx, [end for edge in edges for end in (edge.source, edge.target)])

    # -- links --------------------------------------------------------------------------------------

    async def _write_links(
        self, tx: AsyncManagedTransaction, relation: str, links: Sequence[Link]
    ) -> None:
        """Bring `links` up to date, each by its id. One without its ends comes with them later."""
        await self._locate_ends(tx, links)
        ids = self._ids
        there = [one for one in links if one.source in ids and one.target in ids]
        known = [
            one for one in there if one.source not in self._new and one.target not in self._new
        ]
        found: set[int] = set()
        if known:
            text = _SET_LINKS.replace("{relation}", relation)
            found = {id_ for (id_,) in await rows(tx, text, {"rows": self._link_rows(known)})}
        if new := [one for one in there if one.id not in found]:
            text = _NEW_LINKS.replace("{relation}", relation)
            await rows(tx, text, {"rows": self._link_rows(new)})

    def _link_rows(self, links: Sequence[Link]) -> list[list[Any]]:
        return [
            [self._ids[one.source], self._ids[one.target], one.id, link_properties(one)]
            for one in links
        ]

    async def _drop_links(
        self, tx: AsyncManagedTransaction, relation: str, links: Sequence[Link]
    ) -> None:
        await self._locate(tx, {one.source for one in links})
        rows_ = [[self._ids[one.source], one.id] for one in links if one.source in self._ids]
        if rows_:
            await rows(tx, _DROP_LINKS.replace("{relation}", relation), {"rows": rows_})


async def rows(tx: AsyncManagedTransaction, text: str, given: Mapping[str, Any]) -> list[list[Any]]:
    return await (await tx.run(text, dict(given))).values()
