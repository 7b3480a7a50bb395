"""Stored answers: one row a request id, so that a repeated request gets the first answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import numpy as np

from plait.domain.errors import (
    MemoryNotFound,
    RequestForgotten,
    RequestIdReused,
    StoreContended,
)
from plait.domain.graph import Relation
from plait.domain.memory import MemoryEntry, MemoryId, MemoryReceipt, TurnReceipt, is_made
from plait.ports.memory_plan import Prepared
from vector.connection.arrays import bigint_array, bool_array, bytea_array, text_array, uuid_array
from vector.connection.pool import Connection, Cursor
from vector.memories.read import COLUMNS, WIDTH, to_entry

GIVEN = """
SELECT request_id, body_hash, entry_ids, duplicate, versions, note FROM memory_request
 WHERE tenant = %(tenant)s AND request_id = ANY(%(ids)b::text[])
"""
VERSIONS = f"""
SELECT {COLUMNS}, EXISTS (SELECT FROM memories n WHERE n.entry_id = i.entry_id
                             AND n.repo_id = i.repo_id AND n.superseded_at IS NULL)
  FROM unnest(%(entries)s::uuid[], %(versions)s::int[]) AS w (entry, version)
  JOIN memories i ON i.entry_id = w.entry AND i.version = w.version
  JOIN repository r ON r.id = i.repo_id
"""
# Near-duplicates found when the entry was stored.
SIMILAR = f"""
SELECT e.entry_id, substr(e.target, 8)::uuid FROM memory_edge e
 WHERE e.entry_id = ANY(%(entries)s) AND e.relation = '{Relation.SIMILAR_TO}' AND e.resolver = 'words'
 ORDER BY e.confidence DESC, e.target
"""
# Without ON CONFLICT where no id was answered before: a conflict then costs only another attempt, while checking for
# one takes a third of the statement.
RECORD = """
INSERT INTO memory_request (tenant, request_id, repo_id, body_hash, entry_ids, duplicate, versions, note)
SELECT %(tenant)s, w.id, %(repo)s, w.hash, (%(entries)b::uuid[])[w.first:w.last],
       (%(duplicates)b::boolean[])[w.first:w.last], (%(versions)b::bigint[])[w.first:w.last], w.note
  FROM unnest(%(ids)b::text[], %(hashes)b::bytea[], %(firsts)b::bigint[], %(lasts)b::bigint[],
              %(notes)b::text[]) AS w (id, hash, first, last, note)
 ORDER BY w.id
"""
AGAIN = f"""{RECORD}
    ON CONFLICT (tenant, request_id) DO UPDATE
   SET repo_id = EXCLUDED.repo_id, entry_ids = EXCLUDED.entry_ids, duplicate = EXCLUDED.duplicate,
       versions = EXCLUDED.versions, note = EXCLUDED.note, created_at = now()
 WHERE memory_request.request_id = ANY(%(made)s) AND memory_request.body_hash = EXCLUDED.body_hash
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request id and its memories: one, or those of a turn."""

    id: str
    body_hash: bytes
    repo: str
    parts: Sequence[Prepared]
    note: str = ""


@dataclass(slots=True)
class Known:
    """`refused`: ids used with another body, or whose memories were forgotten; `repeat`: ids answered before that are
    executed again."""

    answers: dict[str, TurnReceipt] = field(default_factory=dict)
    refused: dict[str, RequestIdReused] = field(default_factory=dict)
    repeat: set[str] = field(default_factory=set)


async def find_answers(conn: Connection, tenant: str, batch: Sequence[Request]) -> Cursor:
    """Send the query for stored answers; `answered` reads the result."""
    ids = text_array(list({request.id: None for request in batch}))
    return await conn.execute(GIVEN, {"tenant": tenant, "ids": ids}, prepare=False)


async def answered(conn: Connection, batch: Sequence[Request], cursor: Cursor) -> Known:
    """The stored answers, from the cursor of `find_answers`. A request whose id was derived from its body is executed
    again once none of its entries is alive: such an id means "this holds", not "do this once"."""
    out = Known()
    given = await cursor.fetchall()
    if not given:
        return out
    hashes = {request.id: request.body_hash for request in batch}
    versions, living = await _versions(conn, given)
    for id_, body_hash, entry_ids, duplicates, numbers, note in given:
        if not body_hash:
            out.refused[id_] = RequestForgotten(id_)
            continue
        if bytes(body_hash) != hashes[id_]:
            out.refused[id_] = RequestIdReused(id_)
            continue
        if is_made(id_) and entry_ids and living.isdisjoint(entry_ids):
            out.repeat.add(id_)
            continue
        receipts = tuple(
            replace(versions[entry, number], duplicate=duplicate)
            for entry, number, duplicate in zip(entry_ids, numbers, duplicates, strict=True)
            if (entry, number) in versions
        )
        if entry_ids and not receipts:
            raise MemoryNotFound(entry_ids[0], "the repository it was stored in")
        out.answers[id_] = TurnReceipt(id_, receipts, note, repeated=True)
    return out


async def _versions(
    conn: Connection, given: Iterable[tuple[Any, ...]]
) -> tuple[dict[tuple[UUID, int], MemoryReceipt], set[UUID]]:
    """The versions in the stored answers, as they were then, and which of the entries are alive."""
    pairs = [pair for row in given for pair in zip(row[2], row[4], strict=True)]
    params = {"entries": [e for e, _ in pairs], "versions": [v for _, v in pairs]}
    near: dict[UUID, list[MemoryId]] = {}
    for entry, other in await (await conn.execute(SIMILAR, params, prepare=False)).fetchall():
        near.setdefault(entry, []).append(MemoryId(other))
    found, living = {}, set()
    for row in await (await conn.execute(VERSIONS, params, prepare=False)).fetchall():
        entry = _as_answered(to_entry(row))
        similar = tuple(near.get(entry.id, ())) if entry.version == 1 else ()
        found[UUID(int=entry.id.int), entry.version] = MemoryReceipt(entry, similar=similar)
        if row[WIDTH]:
            living.add(UUID(int=entry.id.int))
    return found, living


def _as_answered(entry: MemoryEntry) -> MemoryEntry:
    return replace(entry, superseded_at=None, superseded_by=None)


Stored = Mapping[int, tuple[MemoryEntry, bool]]
"""By `id(part)`, its stored entry and whether that is a duplicate."""


async def record(
    conn: Connection,
    tenant: str,
    repo_id: int,
    batch: Sequence[Request],
    stored: Stored,
    again: Set[str],
) -> Cursor:
    """Store the answers; pass the cursor to `check_recorded` after the pipeline. `again`: see `Known.repeat`. Raises:
    UniqueViolation, at the latest when the pipeline ends."""
    entries = [stored[id(part)] for request in batch for part in request.parts]
    # The entries of a request are the slice from its first to its last part.
    lasts = np.cumsum([len(request.parts) for request in batch], dtype=np.int64)
    firsts = np.concatenate(([0], lasts[:-1])) + 1
    params = {
        "tenant": tenant,
        "repo": repo_id,
        "ids": text_array([request.id for request in batch]),
        "hashes": bytea_array([request.body_hash for request in batch]),
        "firsts": bigint_array(firsts),
        "lasts": bigint_array(lasts),
        "entries": uuid_array([entry.id for entry, _ in entries]),
        "duplicates": bool_array([duplicate for _, duplicate in entries]),
        "versions": bigint_array(np.array([entry.version for entry, _ in entries], np.int64)),
        "notes": text_array([request.note for request in batch]),
    }
    anew = [request.id for request in batch if request.id in again]
    if anew:
        return await conn.execute(AGAIN, {**params, "made": anew})
    return await conn.execute(RECORD, params)


def check_recorded(cursor: Cursor, batch: Sequence[Request]) -> None:
    """Raises: StoreContended, when another transaction answered one of `batch` meanwhile."""
    if cursor.rowcount != len(batch):
        raise StoreContended("a request with the same id ended just now; run the same again")
