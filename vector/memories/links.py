"""Links of memories: to code that their text names, and to near-duplicates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import numpy as np

from plait.domain.graph import Relation
from plait.domain.memory import MemoryEntry, MemoryId
from plait.domain.off_loop import off_loop
from plait.ports.memory_plan import MAX_READ, Plan, Prepared
from plait.text.mentions import MAX_READ as MAX_TEXT
from plait.text.mentions import Mentions, mentions, unique
from plait.text.near_duplicates import jaccard, words
from vector.anchors import anchored_text
from vector.anchors.anchored_text import Index
from vector.connection.arrays import bigint_array
from vector.connection.pool import Connection, Cursor
from vector.index.visible import chunk, held
from vector.memories.write import Edge

# Two short texts that share four of five words differ in meaning about as often as not: they are linked, not merged.
# Chosen by hand.
JACCARD = 0.8
MAX_SIMILAR = 10  # a memory, the nearest
MAX_CANDIDATES = 2_000  # a batch
MAX_BUCKET = 10  # entries compared of those that share one number of a sketch
MAX_NAMES = 2_000  # a batch
MAX_SYMBOLS = 20_000

NOTHING = Mentions()

PATHS = f"""
SELECT f.path FROM source_file f JOIN repository r ON r.id = f.repo_id
 WHERE f.repo_id = %(repo)s AND f.path = ANY(%(paths)s)
   AND {held("f", "r.published")}
"""
SYMBOLS = f"""
SELECT d.name, d.symbol, d.path, count(*) OVER (PARTITION BY d.name) AS n FROM (
       SELECT DISTINCT f.name, f.symbol, f.path FROM files f JOIN repository r ON r.id = f.repo_id
        WHERE f.repo_id = %(repo)s AND f.name <> ''
          AND f.name = ANY(SELECT s.name FROM symbol_name s
                            WHERE s.repo_id = %(repo)s AND s.name = ANY(%(names)s))
          AND {chunk("f", "r.published")}) d
 ORDER BY n, d.name, d.symbol, d.path LIMIT %(most)s
"""
# The narrowest definition that holds a line.
LINES = f"""
SELECT w.path, w.line, f.symbol
  FROM repository r CROSS JOIN unnest(%(line_paths)s::text[], %(lines)s::int[]) AS w (path, line)
 CROSS JOIN LATERAL (
       SELECT i.symbol FROM files i
        WHERE i.repo_id = r.id AND i.path = w.path AND i.start_line <= w.line AND i.end_line >= w.line
          AND i.symbol <> '' AND i.kind <> 'module'
          AND {chunk("i", "r.published")}
        ORDER BY i.end_line - i.start_line LIMIT 1) f
 WHERE r.id = %(repo)s
"""
NEAR = """
SELECT n.entry_id, n.agent_id, n.sketch, left(i.content, %(read)s)
  FROM similar_memories(%(repo)s, %(sketch)b::int8[], %(each)s, %(most)s) n JOIN memories i ON i.id = n.id
"""


@dataclass(frozen=True, slots=True)
class Code:
    """The mentions of a batch that the published revision contains: paths, and by name the symbols with their
    files."""

    paths: frozenset[str] = frozenset()
    symbols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mentions: Mapping[Any, Mentions] = field(default_factory=dict)  # by a part's own id
    index: Index = field(default_factory=Index)

    def edges(self, entry: MemoryEntry, part: Prepared) -> list[Edge]:
        """Edges to the anchor, then to the code that the text names, each target once."""
        found: dict[str, Edge] = {}
        anchor = f"/{entry.path}" if entry.path else ""
        mention = Relation.MENTIONS.value
        if anchor:
            found[anchor] = (entry, mention, anchor, entry.path, "anchor", 1.0)
        if entry.symbol:
            found[entry.symbol] = (entry, mention, entry.symbol, entry.path, "anchor", 1.0)
        mentioned = self.mentions.get(part.id, NOTHING)
        for path in mentioned.paths:
            if path in self.paths:
                found.setdefault(f"/{path}", (entry, mention, f"/{path}", path, "text", 0.9))
        for name in mentioned.names:
            known = self.symbols.get(name.rpartition(".")[2], {})
            if symbol := unique(name, set(known)):
                found.setdefault(symbol, (entry, mention, symbol, known[symbol], "text", 0.8))
        return list(found.values())


async def code(conn: Connection, repo_id: int, parts: Iterable[Prepared]) -> Code:
    """Look up the mentions of a batch, all at once; empty without an index."""
    cursor = await conn.execute("SELECT published FROM repository WHERE id = %s", (repo_id,))
    if await cursor.fetchone() == (0,):
        return Code()
    texts = {p.id: p.entry.content[:MAX_TEXT] for p in parts}
    found = await off_loop(
        sum(map(len, texts.values())), lambda: {id_: mentions(text) for id_, text in texts.items()}
    )
    return await look_up(conn, repo_id, found)


async def look_up(conn: Connection, repo_id: int, mentioned: Mapping[Any, Mentions]) -> Code:
    """The part of `mentioned` that the published revision contains. At most three queries."""
    paths = _first(path for one in mentioned.values() for path in one.paths)
    names = _first(name.rpartition(".")[2] for one in mentioned.values() for name in one.names)
    params: dict[str, Any] = {"repo": repo_id, "paths": paths, "names": names}
    params["most"] = MAX_SYMBOLS
    there: frozenset[str] = frozenset()
    symbols: dict[str, dict[str, str]] = defaultdict(dict)
    places: dict[str, list[tuple[str, str]]] = defaultdict(list)
    if paths:
        cursor = await conn.execute(PATHS, params)
        there = frozenset(path for (path,) in await cursor.fetchall())
    if names:
        cursor = await conn.execute(SYMBOLS, params)
        rows = await cursor.fetchall()
        # The list of the last name, the most common one, may be cut: a part of it could be taken for all.
        cut = rows[-1][0] if len(rows) == MAX_SYMBOLS else None
        for name, symbol, path, _ in rows:
            if name != cut:
                symbols[name].setdefault(symbol, path)
                places[name].append((symbol, path))
    lines = {at for one in mentioned.values() for at in one.lines if at[0] in there}
    at: dict[tuple[str, int], str] = {}
    if lines:
        selected = sorted(lines)[:MAX_NAMES]
        params |= {
            "line_paths": [path for path, _ in selected],
            "lines": [line for _, line in selected],
        }
        cursor = await conn.execute(LINES, params, prepare=False)
        at = {(path, line): symbol for path, line, symbol in await cursor.fetchall()}
    return Code(there, symbols, mentioned, Index(there, places, at))


def _first(texts: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(texts), MAX_NAMES))


async def anchors(
    conn: Connection, repo_id: int, parts: Iterable[Prepared], mentioned: Code
) -> dict[MemoryId, str]:
    """By part id, the column `anchors`: the code that its text names, with current hashes. At most one query."""
    named_by_part = {
        part.id: named
        for part in parts
        if (found := mentioned.mentions.get(part.id)) is not None
        and (named := mentioned.index.named(found, (part.entry.path, part.entry.symbol)))
    }
    reads = await anchored_text.read(conn, repo_id, chain.from_iterable(named_by_part.values()))
    columns = {
        id_: anchored_text.stored_anchors(named, reads) for id_, named in named_by_part.items()
    }
    return {id_: column for id_, column in columns.items() if column is not None}


Buckets = defaultdict[tuple[str, int], list[tuple[MemoryId, frozenset[str]]]]


async def find_similar(conn: Connection, repo_id: int, parts: Iterable[Prepared]) -> Cursor | None:
    """Send the query for stored entries that share a number of a sketch; `buckets` reads the result."""
    rows = {tuple(part.sketch) for part in parts if part.sketch}
    if not rows:
        return None
    numbers = bigint_array(np.array(list(rows), np.int64).T)
    params = {"repo": repo_id, "sketch": numbers, "read": MAX_READ}
    limits = {"each": MAX_BUCKET, "most": MAX_CANDIDATES}
    return await conn.execute(NEAR, {**params, **limits})


async def buckets(cursor: Cursor | None) -> Buckets:
    """By agent and number of a sketch, the stored entries with that number and their words."""
    found: Buckets = defaultdict(list)
    for entry_id, agent, sketch, content in await cursor.fetchall() if cursor else ():
        entry = (MemoryId(entry_id), frozenset(words(content)))
        for number in sketch:
            found[agent, number].append(entry)
    return found


def _compared(part: Prepared) -> frozenset[str]:
    """The words of the part of a text that is compared for near-duplicates."""
    content = part.entry.content
    return frozenset(part.words if len(content) <= MAX_READ else words(content[:MAX_READ]))


def near(made: Plan, stored: Buckets) -> dict[MemoryId, list[tuple[MemoryId, float]]]:
    """For each new entry, the living near-duplicates of its agent with the Jaccard similarity of their word sets, best
    first, without the entries that it supersedes."""
    fresh = [(slot, slot.prepared) for slot in made.slots if slot.is_new and slot.prepared]
    closed = {slot.id for slot in made.slots if slot.closed}
    # Most numbers belong to one memory only: a bucket for each would cost more than all the rest.
    times = Counter(chain.from_iterable(part.sketch for _, part in fresh))
    shared = {number for number, n in times.items() if n > 1} | {number for _, number in stored}
    out: dict[MemoryId, list[tuple[MemoryId, float]]] = {}
    for slot, part in fresh:
        others: dict[MemoryId, frozenset[str]] = {}
        own_words: frozenset[str] = frozenset()  # computed only for comparison, which is rare
        for number in part.sketch:
            if number not in shared:
                continue
            bucket = stored[part.entry.agent_id, number]
            others.update(bucket[-MAX_BUCKET:])
            own_words = own_words or _compared(part)
            bucket.append((slot.id, own_words))
        if not others:
            continue
        scored = [(id_, jaccard(own_words, other)) for id_, other in others.items()]
        best = [(id_, s) for id_, s in scored if s >= JACCARD and id_ not in closed]
        if best:
            out[slot.id] = sorted(best, key=lambda pair: (-pair[1], pair[0]))[:MAX_SIMILAR]
    return out
