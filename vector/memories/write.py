"""The statements of a write to memories. Each works inside the caller's transaction; the recorded time
`at` is the one `vector/connection/clock.py` gave that transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np

from plait.domain.graph import Relation
from plait.domain.ids import new_item_ids
from plait.domain.memory import MemoryEntry, MemoryId, MemorySource, MemoryWrite
from plait.domain.values import Collection, ItemId, embedded_text
from plait.ports import Segment
from plait.ports.memory_plan import Key, Plan, Prepared, Row, Slot
from plait.text.near_duplicates import sketches, words
from plait.text.tokenize import tokens
from plait.text.turn_kinds import announces_next_step, is_question
from vector.anchors.anchored import Anchor
from vector.connection.arrays import bytea_array, text_array
from vector.connection.bulk import Insert, array_literal, insert, send
from vector.connection.pool import Connection, Cursor
from vector.index import segments
from vector.memories.read import COLUMNS, FROM, WIDTH, to_entry
from vector.search.nearest import literal

ITEM_COLUMNS = (
    ("id", "uuid"), ("repo_id", "int4"), ("collection", "text"), ("kind", "text"),
    ("content_hash", "bytea"), ("path", "text"), ("symbol", "text"), ("name", "text"),
    ("tenant", "text"), ("agent_id", "text"), ("session_key", "text"), ("source", "text"),
    ("type", "text"), ("tags", "text[]"), ("meta", "jsonb"), ("content", "text"),
    ("importance", "float4"), ("pinned", "bool"), ("ts", "timestamptz"),
    ("recorded_at", "timestamptz"), ("valid_from", "timestamptz"), ("valid_to", "timestamptz"),
    ("entry_id", "uuid"), ("version", "int4"), ("tokens", "int4"), ("created_at", "timestamptz"),
    ("sketch", "int8[]"), ("anchor_hash", "bytea"), ("anchors", "jsonb"), ("is_question", "bool"),
    ("announces_step", "bool"),
)  # fmt: skip

# One look-up a text by its hash, whatever else is indexed: the rest is written so that no index serves
# it. Of a table that has no statistics yet the planner took `memories_once` for nearly empty, since its condition
# was said here, and read all of it for each text. Like all that is asked for many keys at once it is planned at each call (`prepare=False`): a plan
# from when the table was small would read all of it.
ALIVE = f"""
SELECT {COLUMNS}, i.id, i.content_hash, i.episode_id
  FROM unnest(%(agents)b::text[], %(sessions)b::text[], %(hashes)b::bytea[]) AS k (agent, session, hash)
 CROSS JOIN LATERAL (
       SELECT * FROM memories m
        WHERE m.content_hash = k.hash
          AND CASE WHEN m.superseded_at IS NULL AND m.episode_id IS NULL THEN true END
          AND m.repo_id IS NOT DISTINCT FROM %(repo)s AND m.agent_id IS NOT DISTINCT FROM k.agent
          AND m.session_key IS NOT DISTINCT FROM k.session AND m.entry_id IS NOT NULL LIMIT 1) i
  JOIN repository r ON r.id = i.repo_id
"""

# By the id of any version, the newest one of its entry.
NEWEST = f"""
SELECT DISTINCT ON (w.id) {COLUMNS}, i.id, i.content_hash, i.episode_id, w.id
{FROM} JOIN memories w ON w.entry_id = i.entry_id AND w.repo_id = i.repo_id
 WHERE w.id = ANY(%(ids)s) AND i.repo_id = %(repo)s ORDER BY w.id, i.version DESC
"""

CLOSE = """
UPDATE memories i SET superseded_at = %(at)s, superseded_by = c.by
  FROM unnest(%(rows)s::uuid[], %(bys)s::uuid[]) AS c (id, by)
 WHERE i.id = c.id AND i.repo_id = %(repo)s AND i.superseded_at IS NULL
"""

# Edges of a memory to code and to other memories end when it is closed; SUPERSEDES and DERIVED_FROM stay.
CLOSE_EDGES = """
UPDATE memory_edge SET recorded_to = %(at)s
 WHERE repo_id = %(repo)s AND recorded_to IS NULL
   AND (entry_id = ANY(%(entries)s) AND relation <> ALL(%(kept)s)
        OR target = ANY(%(names)s) AND relation = %(similar)s)
"""
REOPEN_EDGES = """
INSERT INTO memory_edge (repo_id, entry_id, relation, source, target, path, resolver, confidence,
                         valid_from, valid_to, recorded_from)
SELECT repo_id, entry_id, relation, source, target, path, resolver, confidence,
       v.valid_from, v.valid_to, %(at)s
  FROM unnest(%(entries)s::uuid[], %(froms)s::timestamptz[], %(tos)s::timestamptz[])
       AS v (entry, valid_from, valid_to)
  JOIN memory_edge e ON e.entry_id = v.entry
 WHERE e.repo_id = %(repo)s AND e.recorded_to = %(at)s AND e.relation <> ALL(%(kept)s)
    ON CONFLICT DO NOTHING
"""
ADD_EDGES = """
INSERT INTO memory_edge (repo_id, entry_id, relation, source, target, path, resolver, confidence,
                         valid_from, valid_to, recorded_from)
SELECT %(repo)s, e.entry, e.relation, 'memory/' || e.entry, e.target, e.path, e.resolver, e.confidence,
       e.valid_from, e.valid_to, %(at)s
  FROM unnest(%(entries)s::uuid[], %(relations)s::text[], %(targets)s::text[], %(paths)s::text[],
              %(resolvers)s::text[], %(confidences)s::float4[], %(froms)s::timestamptz[],
              %(tos)s::timestamptz[])
       AS e (entry, relation, target, path, resolver, confidence, valid_from, valid_to)
    ON CONFLICT DO NOTHING
"""
LASTING = [Relation.SUPERSEDES.value, Relation.DERIVED_FROM.value]

CARRY_VECTORS = """
UPDATE memories n SET embedding = o.embedding, embedding_model = o.embedding_model
  FROM unnest(%(new)s::uuid[], %(old)s::uuid[]) AS p (new, old) JOIN memories o ON o.id = p.old
 WHERE n.id = p.new AND o.embedding IS NOT NULL AND n.embedding IS NULL
"""
PUT_VECTORS = """
UPDATE memories i SET embedding = v.vector::halfvec, embedding_model = %(model)s
  FROM unnest(%(rows)s::uuid[], %(vectors)s::text[]) AS v (id, vector)
 WHERE i.id = v.id AND i.embedding IS NULL
"""


def prepare(writes: Sequence[MemoryWrite]) -> list[Prepared]:
    """Assign ids and hashes, without the database. Some 2 µs a short memory."""
    ids = new_item_ids(len(writes))
    return [
        Prepared(write, MemoryId(id_), content_hash(write.entry))
        for write, id_ in zip(writes, ids, strict=True)
    ]


def read(parts: Iterable[Prepared]) -> None:
    """Fill in the words of `parts`."""
    for part in parts:
        part.words = words(part.entry.content)


def sketch(parts: Sequence[Prepared]) -> None:
    """Fill in the sketches of `parts`, which have words and are of one repository. Some 5 µs a short memory."""
    if parts:
        made = sketches(parts[0].entry.repo, [part.words for part in parts])
        for part, numbers in zip(parts, made, strict=True):
            part.sketch = numbers


def content_hash(entry: MemoryEntry) -> bytes:
    """The hash of the embedded text (content with anchor). Equal hashes share a vector."""
    text = embedded_text(entry.path, entry.symbol, entry.content)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


# -- reading ------------------------------------------------------------------------------------------


def _row(row: Sequence[Any]) -> Row:
    entry, (id_, hash_, episode) = to_entry(row), row[WIDTH : WIDTH + 3]
    key: Key | None = None
    if episode is None:
        key = (entry.agent_id, entry.metadata.session_key, bytes(hash_))
    return Row(id_, entry, key)


async def find_alive(conn: Connection, repo_id: int, parts: Sequence[Prepared]) -> Cursor:
    """Send the query for living entries with the key of a part; `alive` reads the result."""
    keys = list({part.key for part in parts})
    params = {
        "repo": repo_id,
        "agents": text_array([key[0] for key in keys]),
        "sessions": text_array([key[1] for key in keys]),
        "hashes": bytea_array([key[2] for key in keys]),
    }
    return await conn.execute(ALIVE, params, prepare=False)


async def alive(cursor: Cursor) -> list[Row]:
    """The rows of `find_alive`."""
    return [_row(row) for row in await cursor.fetchall()]


async def newest(conn: Connection, repo_id: int, ids: Iterable[MemoryId]) -> dict[MemoryId, Row]:
    """The newest version of each entry, by the given id: the entry's or one of its versions'."""
    unique = sorted(set(ids))
    if not unique:
        return {}
    cursor = await conn.execute(NEWEST, {"repo": repo_id, "ids": unique}, prepare=False)
    return {MemoryId(row[WIDTH + 3]): _row(row) for row in await cursor.fetchall()}


# -- writing ------------------------------------------------------------------------------------------


NO_ANCHORS: Mapping[Anchor, bytes] = MappingProxyType({})
TextAnchors = Mapping[MemoryId, str]  # by part id, the column `anchors`
NO_TEXT_ANCHORS: TextAnchors = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows for `memories`: ids, the slots they are versions of, and the insert."""

    ids: list[ItemId]
    slots: list[Slot]
    rows: Insert | None


def versions(
    repo_id: int,
    tenant: str,
    made: Plan,
    at: datetime,
    anchors: Mapping[Anchor, bytes] = NO_ANCHORS,
    text_anchors: TextAnchors = NO_TEXT_ANCHORS,
) -> Versions:
    """The new versions of `made`. `anchors`: current hashes of their anchors; `text_anchors`: of the code that their
    texts name."""
    changed = [slot for slot in made.slots if slot.changed]
    slots = [*(slot for slot in made.slots if slot.is_new), *changed]
    later = iter(new_item_ids(len(changed)))
    ids = [ItemId(slot.id) if slot.is_new else next(later) for slot in slots]
    rows = [
        _item_row(id_, repo_id, tenant, slot, at, anchors, text_anchors)
        for id_, slot in zip(ids, slots, strict=True)
    ]
    return Versions(ids, slots, insert("memories", ITEM_COLUMNS, rows))


async def write(
    conn: Connection, repo_id: int, made: Plan, new: Versions, at: datetime, model: str = ""
) -> list[MemoryId]:
    """Execute `made` except for the text index and the links to code and near-duplicates; returns the entries that it
    touched. `new`: the result of `versions`."""
    changed = [slot for slot in new.slots if not slot.is_new]
    gone = [s for s in made.slots if s.closed and s.row is not None and s.row.alive]
    await close(conn, repo_id, at, [*gone, *changed])
    await send(conn, new.rows)
    await _insert_vectors(conn, list(zip(new.ids, new.slots, strict=True)), model)
    await _close_edges(conn, repo_id, at, gone, [slot for slot in changed if slot.moved])
    touched = {slot.id: None for slot in (*new.slots, *gone)}
    for slot, _ in made.supersedes:
        touched[slot.id] = None
    return list(touched)


async def close(conn: Connection, repo_id: int, at: datetime, slots: Sequence[Slot]) -> None:
    """End the stored versions at `at`."""
    rows = [(slot.row.id, slot.by) for slot in slots if slot.row is not None]
    if rows:
        ids, bys = zip(*rows, strict=True)
        params = {"repo": repo_id, "at": at, "rows": list(ids), "bys": list(bys)}
        await conn.execute(CLOSE, params, prepare=False)


def indexed(new: Versions) -> Segment:
    """The text index of `new`."""
    # A changed version has the text of the part that changed it.
    entries = [slot.prepared.entry for slot in new.slots if slot.prepared is not None]
    terms = [tokens(embedded_text(e.path, e.symbol, e.content)) for e in entries]
    return segments.build(new.ids, terms)


async def write_index(conn: Connection, repo_id: int, index: Segment) -> None:
    """Write the result of `indexed` unless it is empty."""
    if index.ids:
        await segments.insert_whole(conn, repo_id, Collection.MEMORIES.value, index)


def _item_row(
    id_: ItemId,
    repo_id: int,
    tenant: str,
    slot: Slot,
    at: datetime,
    anchors: Mapping[Anchor, bytes],
    text_anchors: TextAnchors,
) -> tuple[Any, ...]:
    """In the order of `ITEM_COLUMNS`."""
    entry, part = slot.result(at), slot.prepared
    assert part is not None, "new versions come of a write"
    meta = entry.metadata
    return (
        id_, repo_id, Collection.MEMORIES.value, entry.kind, part.hash, entry.path, entry.symbol,
        entry.symbol.rpartition(".")[2], tenant, entry.agent_id, meta.session_key, str(meta.source),
        str(entry.type), array_literal(meta.tags), json.dumps(meta.custom) if meta.custom else "{}", entry.content, meta.importance,
        entry.pinned, entry.created_at, at, entry.valid_from, entry.valid_to, entry.id, entry.version,
        entry.tokens, entry.created_at, _numbers(part.sketch),
        anchors.get((entry.path, entry.symbol)), text_anchors.get(part.id), is_question(entry.content),
        meta.source is MemorySource.AGENT and announces_next_step(entry.content),
    )  # fmt: skip


def _numbers(sketch: Sequence[int]) -> str | None:
    return "{" + ",".join(map(str, sketch)) + "}" if sketch else None


async def _insert_vectors(
    conn: Connection, made: Sequence[tuple[ItemId, Slot]], model: str
) -> None:
    """A new version takes the vector sent by the client, else that of the version before it."""
    sent = [(i, s.prepared.entry.embedding) for i, s in made if s.prepared is not None]
    pairs = [
        (i, literal(np.asarray(vector, np.float32))) for i, vector in sent if vector is not None
    ]
    if pairs:
        rows, vectors = zip(*pairs, strict=True)
        params = {"model": model, "rows": list(rows), "vectors": list(vectors)}
        await conn.execute(PUT_VECTORS, params, prepare=False)
    old = [(i, s.row.id) for i, s in made if s.row is not None]
    if old:
        new_ids, old_ids = zip(*old, strict=True)
        params = {"new": list(new_ids), "old": list(old_ids)}
        await conn.execute(CARRY_VECTORS, params, prepare=False)


async def _close_edges(
    conn: Connection, repo_id: int, at: datetime, gone: Sequence[Slot], moved: Sequence[Slot]
) -> None:
    entries = [slot.id for slot in (*gone, *moved)]
    if not entries:
        return
    params: dict[str, Any] = {"repo": repo_id, "at": at, "entries": entries, "kept": LASTING}
    params["names"] = [f"memory/{slot.id}" for slot in gone]
    params["similar"] = Relation.SIMILAR_TO.value
    await conn.execute(CLOSE_EDGES, params, prepare=False)
    if moved:
        params["entries"] = [slot.id for slot in moved]
        params["froms"] = [slot.entry.valid_from for slot in moved]
        params["tos"] = [slot.entry.valid_to for slot in moved]
        await conn.execute(REOPEN_EDGES, params, prepare=False)


Edge = tuple[MemoryEntry, str, str, str, str, float]
"""(entry, relation, target, path, resolver, confidence)"""


async def add_edges(conn: Connection, repo_id: int, at: datetime, edges: Sequence[Edge]) -> None:
    """Add links from memories, valid as long as the memories are."""
    if not edges:
        return
    who, relations, targets, paths, resolvers, confidences = zip(*edges, strict=True)
    params: Mapping[str, Any] = {
        "repo": repo_id,
        "at": at,
        "entries": [entry.id for entry in who],
        "relations": list(relations),
        "targets": list(targets),
        "paths": list(paths),
        "resolvers": list(resolvers),
        "confidences": list(confidences),
        "froms": [entry.valid_from for entry in who],
        "tos": [entry.valid_to for entry in who],
    }
    await conn.execute(ADD_EDGES, params)


async def queue_event(conn: Connection, repo_id: int, entries: Sequence[UUID]) -> None:
    """Queue the projection of `entries` to the graph, in their state at that time."""
    if entries:
        await conn.execute(
            "INSERT INTO outbox (repo_id, kind, entries) VALUES (%s, 'memory', %s)",
            (repo_id, list(entries)),
        )
