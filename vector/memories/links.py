"""What memories are linked to: code that their text names, and memories that say nearly the same."""

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
from vector.memories.write import Edge

# Two short texts with four of five words in common are told apart by the fifth as often as not: they
# are linked, not united. Chosen by hand.
JACCARD = 0.8
MAX_SIMILAR = 10  # a memory, the nearest
MAX_CANDIDATES = 2_000  # a batch
MAX_BUCKET = 10  # of those that share a number of a sketch, so many are compared
MAX_NAMES = 2_000  # a batch
MAX_SYMBOLS = 20_000

NOTHING = Mentions()

PATHS = """
SELECT f.path FROM source_file f JOIN repository r ON r.id = f.repo_id
 WHERE f.repo_id = %(repo)s AND f.path = ANY(%(paths)s)
   AND f.rev_from <= r.published AND (f.rev_to IS NULL OR f.rev_to > r.published)
"""
SYMBOLS = """
SELECT d.name, d.symbol, d.path, count(*) OVER (PARTITION BY d.name) AS n FROM (
       SELECT DISTINCT f.name, f.symbol, f.path FROM files f JOIN repository r ON r.id = f.repo_id
        WHERE f.repo_id = %(repo)s AND f.name <> ''
          AND f.name = ANY(SELECT s.name FROM symbol_name s
                            WHERE s.repo_id = %(repo)s AND s.name = ANY(%(names)s))
          AND f.rev_from <= r.published AND (f.rev_to IS NULL OR f.rev_to > r.published)) d
 ORDER BY n, d.name, d.symbol, d.path LIMIT %(most)s
"""
# The narrowest definition that holds a line.
LINES = """
SELECT w.path, w.line, f.symbol
  FROM repository r CROSS JOIN unnest(%(line_paths)s::text[], %(lines)s::int[]) AS w (path, line)
 CROSS JOIN LATERAL (
       SELECT i.symbol FROM files i
        WHERE i.repo_id = r.id AND i.path = w.path AND i.start_line <= w.line AND i.end_line >= w.line
          AND i.symbol <> '' AND i.kind <> 'module'
          AND i.rev_from <= r.published AND (i.rev_to IS NULL OR i.rev_to > r.published)
        ORDER BY i.end_line - i.start_line LIMIT 1) f
 WHERE r.id = %(repo)s
"""
NEAR = """
SELECT n.entry_id, n.agent_id, n.sketch, left(i.content, %(read)s)
  FROM similar_memories(%(repo)s, %(sketch)b::int8[], %(each)s, %(most)s) n JOIN memories i ON i.id = n.id
"""


@dataclass(frozen=True, slots=True)
class Code:
    """What of a batch's mentions the published revision has: paths, and by name its symbols with their
    files."""

    paths: frozenset[str] = frozenset()
    symbols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    mentions: Mapping[Any, Mentions] = field(default_factory=dict)  # by a part's own id
    index: Index = field(default_factory=Index)

    def edges(self, entry: MemoryEntry, part: Prepared) -> list[Edge]:
        """The anchor, then what the text names, each target once."""
        found: dict[str, Edge] = {}
        anchor = f"/{entry.path}" if entry.path else ""
        mention = Relation.MENTIONS.value
        if anchor:
            found[anchor] = (entry, mention, anchor, entry.path, "anchor", 1.0)
        if entry.symbol:
            found[entry.symbol] = (entry, mention, entry.symbol, entry.path, "anchor", 1.0)
        said = self.mentions.get(part.id, NOTHING)
        for path in said.paths:
            if path in self.paths:
                found.setdefault(f"/{path}", (entry, mention, f"/{path}", path, "text", 0.9))
        for name in said.names:
            known = self.symbols.get(name.rpartition(".")[2], {})
            if symbol := unique(name, set(known)):
                found.setdefault(symbol, (entry, mention, symbol, known[symbol], "text", 0.8))
        return list(found.values())


async def code(conn: Connection, repo_id: int, parts: Iterable[Prepared]) -> Code:
    """Look the mentions of a batch up, all at once; without an index there is nothing to find."""
    cursor = await conn.execute("SELECT published FROM repository WHERE id = %s", (repo_id,))
    if await cursor.fetchone() == (0,):
        return Code()
    texts = {p.id: p.entry.content[:MAX_TEXT] for p in parts}
    said = await off_loop(
        sum(map(len, texts.values())), lambda: {id_: mentions(text) for id_, text in texts.items()}
    )
    return await look_up(conn, repo_id, said)


async def look_up(conn: Connection, repo_id: int, said: Mapping[Any, Mentions]) -> Code:
    """What of `said` the published revision has. Up to three queries, none where nothing is named."""
    paths = _first(path for one in said.values() for path in one.paths)
    names = _first(name.rpartition(".")[2] for one in said.values() for name in one.names)
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
        # Of the name that was cut, the most common one there is, a part might pass for all.
        cut = rows[-1][0] if len(rows) == MAX_SYMBOLS else None
        for name, symbol, path, _ in rows:
            if name != cut:
                symbols[name].setdefault(symbol, path)
                places[name].append((symbol, path))
    lines = {at for one in said.values() for at in one.lines if at[0] in there}
    at: dict[tuple[str, int], str] = {}
    if lines:
        wanted = sorted(lines)[:MAX_NAMES]
        params |= {
            "line_paths": [path for path, _ in wanted],
            "lines": [line for _, line in wanted],
        }
        cursor = await conn.execute(LINES, params, prepare=False)
        at = {(path, line): symbol for path, line, symbol in await cursor.fetchall()}
    return Code(there, symbols, said, Index(there, places, at))


def _first(texts: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(texts), MAX_NAMES))


async def anchors(
    conn: Connection, repo_id: int, parts: Iterable[Prepared], mentioned: Code
) -> dict[MemoryId, str]:
    """By a part's own id the column `anchors`: what its text names, and how that reads now. One query,
    none where nothing is named."""
    wanted = {
        part.id: named
        for part in parts
        if (said := mentioned.mentions.get(part.id)) is not None
        and (named := mentioned.index.named(said, (part.entry.path, part.entry.symbol)))
    }
    reads = await anchored_text.read(conn, repo_id, chain.from_iterable(wanted.values()))
    columns = {id_: anchored_text.kept(named, reads) for id_, named in wanted.items()}
    return {id_: column for id_, column in columns.items() if column is not None}


Buckets = defaultdict[tuple[str, int], list[tuple[MemoryId, frozenset[str]]]]


async def ask_alike(conn: Connection, repo_id: int, parts: Iterable[Prepared]) -> Cursor | None:
    """Ask for stored entries that share a number of a sketch; `buckets` has the answer."""
    rows = {tuple(part.sketch) for part in parts if part.sketch}
    if not rows:
        return None
    numbers = bigint_array(np.array(list(rows), np.int64).T)
    params = {"repo": repo_id, "sketch": numbers, "read": MAX_READ}
    limits = {"each": MAX_BUCKET, "most": MAX_CANDIDATES}
    return await conn.execute(NEAR, {**params, **limits})


async def buckets(asked: Cursor | None) -> Buckets:
    """By agent and number of a sketch, the stored entries with that number and their words."""
    found: Buckets = defaultdict(list)
    for entry_id, agent, sketch, content in await asked.fetchall() if asked else ():
        said = (MemoryId(entry_id), frozenset(words(content)))
        for number in sketch:
            found[agent, number].append(said)
    return found


def _compared(part: Prepared) -> frozenset[str]:
    """The words of the part of a text in which near-duplicates are told."""
    content = part.entry.content
    return frozenset(part.words if len(content) <= MAX_READ else words(content[:MAX_READ]))


def near(made: Plan, stored: Buckets) -> dict[MemoryId, list[tuple[MemoryId, float]]]:
    """For each new entry the living ones of its agent with nearly its words, with the Jaccard
    similarity of their sets, best first. Those it takes the place of are none."""
    fresh = [(slot, slot.prepared) for slot in made.slots if slot.is_new and slot.prepared]
    closed = {slot.id for slot in made.slots if slot.closed}
    # Most numbers are one memory's alone: a bucket for each would cost more than all the rest.
    times = Counter(chain.from_iterable(part.sketch for _, part in fresh))
    shared = {number for number, n in times.items() if n > 1} | {number for _, number in stored}
    out: dict[MemoryId, list[tuple[MemoryId, float]]] = {}
    for slot, part in fresh:
        others: dict[MemoryId, frozenset[str]] = {}
        said: frozenset[str] = frozenset()  # made where it is compared: few memories are
        for number in part.sketch:
            if number not in shared:
                continue
            bucket = stored[part.entry.agent_id, number]
            others.update(bucket[-MAX_BUCKET:])
            said = said or _compared(part)
            bucket.append((slot.id, said))
        if not others:
            continue
        scored = [(id_, jaccard(said, other)) for id_, other in others.items()]
        best = [(id_, s) for id_, s in scored if s >= JACCARD and id_ not in closed]
        if best:
            out[slot.id] = sorted(best, key=lambda pair: (-pair[1], pair[0]))[:MAX_SIMILAR]
    return out
