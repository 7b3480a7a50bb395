"""BM25 segments in the database: written once, never changed, merged and buried by revision.

Layout (the best of three measured: 1.7 CPU s and 21 MB for 2.3 M postings, 0.9 ms a query): one row
a (segment, term), `body` = int32 documents ascending (little-endian), then as many uint8 term
frequencies. `ids` are 16 bytes a document, `lengths` int32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, count, groupby, pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from plait.domain.values import ItemId
from plait.ports import Draft, Segment
from vector.connection.pool import Connection, copy_rows
from vector.connection.uuids import uuids
from vector.index.visible import CHUNKS_OF

Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

POSTING_COLUMNS = (
    ("segment_id", "int8"), ("repo_id", "int4"), ("term", "text"), ("body", "bytea"),
)  # fmt: skip

# A run of more segments than this, each at most twice as large as all smaller ones together, becomes
# one: a query probes the index once a (segment, term). Each document is rewritten O(log n) times.
MAX_RUN = 8
# Of agents' text besides: never more than so many that a merge could take, however their sizes lie; and a merge
# writes so many documents at most, 2 s of work. What has half of that is left as it is.
MAX_SEGMENTS = 24
MAX_MERGED = 262_144
FETCH_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Stored:
    """A segment of a repository, which of its documents a revision holds, and which a merge keeps."""

    id: int
    ids: bytes
    lengths: Ints
    alive: Bools
    kept: Bools


async def insert(
    conn: Connection,
    repo_id: int,
    collection: str,
    segment: Segment,
    *,
    rev_from: int,
) -> int:
    """Write `segment` as the owner; return its id. Terms go in sorted, which the index is cheapest to
    grow by."""
    segment_id = await insert_header(
        conn, repo_id, collection, rev_from,
        b"".join(id_.bytes for id_ in segment.ids), np.asarray(segment.lengths, dtype="<i4"),
    )  # fmt: skip
    order = sorted(range(len(segment.terms)), key=segment.terms.__getitem__)
    terms, docs, tfs = segment.terms, segment.docs, segment.tfs
    rows = [(segment_id, repo_id, terms[i], docs[i] + tfs[i]) for i in order]
    await copy_rows(conn, "posting", POSTING_COLUMNS, rows)
    return segment_id


# One round trip, which may stand in a pipeline; row security refuses COPY into `posting`.
INSERT_WHOLE = """
WITH made AS (
    INSERT INTO segment (repo_id, collection, rev_from, docs, tokens, lengths, ids)
    VALUES (%(repo)s, %(collection)s, 0, %(docs)s, %(tokens)s, %(lengths)s, %(ids)s) RETURNING id
)
INSERT INTO posting (segment_id, repo_id, term, body)
SELECT made.id, %(repo)s, sent.term, substring(%(bodies)s::bytea FROM sent.start FOR sent.size)
  FROM made, unnest(string_to_array(%(terms)s::text, ' '), string_to_array(%(starts)s::text, ' ')::int4[],
                    string_to_array(%(sizes)s::text, ' ')::int4[]) AS sent (term, start, size)
"""


async def insert_whole(conn: Connection, repo_id: int, collection: str, segment: Segment) -> None:
    """Write a segment of an un-revisioned collection that `build` made: its terms are sorted.

    Terms, which hold no blank, and bodies travel as one value each: psycopg makes an array of them in
    1 µs an element.
    """
    lengths = np.asarray(segment.lengths, dtype="<i4")
    bodies = [docs + tfs for docs, tfs in zip(segment.docs, segment.tfs, strict=True)]
    sizes = [len(body) for body in bodies]
    await conn.execute(
        INSERT_WHOLE,
        {
            "repo": repo_id,
            "collection": collection,
            "docs": len(lengths),
            "tokens": int(lengths.sum()),
            "lengths": lengths.tobytes(),
            "ids": b"".join(id_.bytes for id_ in segment.ids),
            "terms": " ".join(segment.terms),
            "bodies": b"".join(bodies),
            "starts": " ".join(map(str, list(accumulate(sizes, initial=1))[:-1])),
            "sizes": " ".join(map(str, sizes)),
        },
        binary=True,
    )


async def insert_header(
    conn: Connection, repo_id: int, collection: str, rev_from: int, ids: bytes, lengths: Ints
) -> int:
    cursor = await conn.execute(
        "INSERT INTO segment (repo_id, collection, rev_from, docs, tokens, lengths, ids)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id",
        (repo_id, collection, rev_from, len(lengths), int(lengths.sum()), lengths.tobytes(), ids),
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


def build(ids: Sequence[ItemId], documents: Sequence[Sequence[str]]) -> Segment:
    """A segment over a few documents given as their terms, repeats kept. For a load of thousands
    there is `etl/parsing/segment.py`."""
    known: defaultdict[str, int] = defaultdict(count().__next__)  # the next number for a new term
    lengths = np.array([len(terms) for terms in documents], dtype=np.int32)
    numbers = map(known.__getitem__, chain.from_iterable(documents))
    flat = np.fromiter(numbers, np.int64, int(lengths.sum()))
    names = sorted(known)
    rank = np.empty(len(names), dtype=np.int64)
    rank[[known[name] for name in names]] = np.arange(len(names))
    # One number a (term, document), which grows by term, then document.
    n = max(1, len(documents))
    pairs = rank[flat] * n + np.repeat(np.arange(len(lengths)), lengths)
    found, times = np.unique(pairs, return_counts=True)
    docs = (found % n).astype("<i4").tobytes()
    tfs = np.minimum(times, 255).astype(np.uint8).tobytes()
    ends = np.searchsorted(found // n, np.arange(len(names) + 1)).tolist()
    return Segment(
        ids=list(ids),
        lengths=lengths,
        terms=names,
        docs=[docs[4 * a : 4 * b] for a, b in pairwise(ends)],
        tfs=[tfs[a:b] for a, b in pairwise(ends)],
    )


def split_body(body: bytes) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """`(documents, frequencies)` of a posting row, without a copy."""
    n = len(body) // 5
    return np.frombuffer(body, "<i4", n), np.frombuffer(body, np.uint8, n, 4 * n)


async def bury(conn: Connection, draft: Draft) -> None:
    """Record which documents of the segments that stay are not in `draft`, where that differs from before."""
    gone, back = await _changed_ids(conn, draft)
    if not gone and not back:
        return
    for segment in await live(conn, draft.repo_id, "files", number=draft.number):
        alive = _alive(segment, gone, back)
        if not np.array_equal(alive, segment.alive):
            await _write_dead(conn, segment.id, draft.number, alive)


async def tidy(conn: Connection, draft: Draft) -> None:
    """Merge small segments when they are many, and rewrite those that mostly hold what is collected, as part of
    `draft`. Documents that a kept revision may bring back stay.

    Readers of older revisions go on with the old segments, which carry `rev_to` and are collected
    with that revision's rows.
    """
    gone, back = await _changed_ids(conn, draft)
    stored = [
        replace(segment, alive=_alive(segment, gone, back))
        for segment in await live(conn, draft.repo_id, "files", number=draft.number)
    ]
    run = {s.id for s in _run_of(stored)}
    kept = [await _with_kept(conn, s) for s in stored if s.id in run or _mostly(~s.alive)]
    chosen = [s for s in kept if s.id in run or _mostly(~s.kept)]
    if chosen:
        await merge(conn, draft.repo_id, "files", chosen, rev_from=draft.number)
        await conn.execute(
            "UPDATE segment SET rev_to = %s WHERE id = ANY(%s)",
            (draft.number, [s.id for s in chosen]),
        )


def _alive(segment: Stored, gone: bytes, back: bytes) -> Bools:
    """Which documents are alive once the chunks `gone` have left and the chunks `back` are there (16 bytes each)."""
    return segment.alive & ~_among(segment.ids, gone) | _among(segment.ids, back)


async def _with_kept(conn: Connection, segment: Stored) -> Stored:
    """With the documents whose chunks are stored still."""
    dead = np.flatnonzero(~segment.alive)
    if not len(dead):
        return replace(segment, kept=segment.alive)
    ids = np.frombuffer(segment.ids, "V16")[dead].tobytes()
    cursor = await conn.execute("SELECT id FROM files WHERE id = ANY(%s)", (uuids(ids),))
    there = b"".join([row[0].bytes for row in await cursor.fetchall()])
    kept = segment.alive.copy()
    kept[dead[_among(ids, there)]] = True
    return replace(segment, kept=kept)


async def _write_dead(conn: Connection, segment_id: int, number: int, alive: Bools) -> None:
    await conn.execute(
        "INSERT INTO segment_dead (segment_id, rev, docs) VALUES (%s, %s, %s)"
        " ON CONFLICT (segment_id, rev) DO UPDATE SET docs = EXCLUDED.docs",
        (segment_id, number, np.flatnonzero(~alive).astype("<i4").tobytes()),
    )


async def forget(conn: Connection, repo_id: int, ids: bytes) -> tuple[int, list[int]]:
    """Write every segment of agents' items that holds one of `ids` (16 bytes each) anew without it, so
    that not even its words are left; `(segments written anew or dropped, ids of the old ones)`. In a
    transaction that holds the repository's merging lock.

    A reader that began with one of them finds it empty, as with any that is collected.
    """
    cursor = await conn.execute(
        "SELECT id, collection, ids, lengths, replaced_at IS NOT NULL,"
        "       (SELECT string_agg(d.docs, ''::bytea) FROM segment_dead d WHERE d.segment_id = s.id)"
        "  FROM segment s WHERE repo_id = %s AND collection <> 'files' ORDER BY id",
        (repo_id,),
    )
    old: list[int] = []
    for segment_id, collection, held, lengths, replaced, dead in await cursor.fetchall():
        stored = _stored(segment_id, held, lengths, dead)
        gone = _among(stored.ids, ids)
        if not gone.any():
            continue
        old.append(segment_id)
        if not replaced:
            alive = stored.alive & ~gone
            if alive.any():
                part = replace(stored, alive=alive, kept=alive)
                await merge(conn, repo_id, collection, [part], rev_from=0)
    return len(old), old


def _run_of(stored: Sequence[Stored]) -> Sequence[Stored]:
    """The long run of small segments whose merge pays, if there is one."""
    stored = sorted(stored, key=lambda s: len(s.alive))
    return stored[: _run([len(s.alive) for s in stored])]


def _mostly(docs: Bools) -> bool:
    return 2 * int(docs.sum()) > len(docs)


def _run(sizes: Sequence[int]) -> int:
    """How many of the smallest segments are to become one; `sizes` ascend. With a long run of similar ones
    goes what is smaller than they are: one tiny segment would hold up all of them else."""
    first, documents = 0, 0
    for n, size in enumerate(sizes):
        if n > first and size > 2 * documents:
            if n - first > MAX_RUN:
                return n
            first, documents = n, 0
        documents += size
    return len(sizes) if len(sizes) - first > MAX_RUN else 0


def _step(sizes: Sequence[int]) -> int:
    """How many of the smallest segments of agents' text the next merge makes one: as `_run`, or as many as leave
    `MAX_SEGMENTS` half used where runs are short but many; not more than `MAX_MERGED` documents."""
    few = _run(sizes)
    if not few and len(sizes) > MAX_SEGMENTS:
        few = len(sizes) - MAX_SEGMENTS // 2 + 1
    fitting = sum(total <= MAX_MERGED for total in accumulate(sizes[:few]))
    return fitting if fitting > 1 else 0


async def merge_small(conn: Connection, repo_id: int, collection: str) -> bool:
    """Merge segments of an un-revisioned collection if they are many, one step; whether there may be more
    to do. In a transaction that holds the repository's merging lock.

    Replaced segments stay for a while, for readers that began with them; a later merge removes them.
    """
    # By their sizes first: the lists of the large ones are megabytes, and seldom merged. Nothing in them
    # is dead, see `forget`.
    cursor = await conn.execute(
        "SELECT id, docs FROM segment WHERE repo_id = %s AND collection = %s AND rev_to IS NULL"
        " AND replaced_at IS NULL AND docs <= %s ORDER BY docs, id",
        (repo_id, collection, MAX_MERGED // 2),
    )
    sizes = await cursor.fetchall()
    few = [id_ for id_, _ in sizes[: _step([docs for _, docs in sizes])]]
    if not few:
        return False
    chosen = await live(conn, repo_id, collection, number=0, only=few)
    await merge(conn, repo_id, collection, chosen, rev_from=0)
    await conn.execute(
        "UPDATE segment SET replaced_at = now() WHERE id = ANY(%s)", ([s.id for s in chosen],)
    )
    return True


async def merge(
    conn: Connection, repo_id: int, collection: str, parts: Sequence[Stored], *, rev_from: int
) -> int:
    """Write the kept documents of `parts`, in the order of their ids, as one new segment (none when there are none), and
    which of them the revision `rev_from` does not hold. Its id, or 0."""
    parts = sorted(parts, key=lambda s: s.id)
    lengths = np.concatenate([s.lengths[s.kept] for s in parts]).astype("<i4")
    if not len(lengths):
        return 0
    ids = b"".join(np.frombuffer(s.ids, "V16")[s.kept].tobytes() for s in parts)
    new_id = await insert_header(conn, repo_id, collection, rev_from, ids, lengths)
    alive = np.concatenate([s.alive[s.kept] for s in parts])
    if not alive.all():
        await _write_dead(conn, new_id, rev_from, alive)
    numbers = _renumbered(parts)
    async for rows in _portions(conn, [s.id for s in parts]):
        merged = [(new_id, repo_id, term, body) for term, body in _merged(rows, numbers)]
        await copy_rows(conn, "posting", POSTING_COLUMNS, merged)
    return new_id


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Where old documents go: `new[begin[segment] + old]`, -1 for those that are not kept."""

    begin: dict[int, int]
    new: Ints


def _renumbered(parts: Sequence[Stored]) -> _Numbers:
    kept = np.concatenate([part.kept for part in parts])
    begin, base = {}, 0
    for part in parts:
        begin[part.id] = base
        base += len(part.kept)
    return _Numbers(begin, np.where(kept, np.cumsum(kept) - 1, -1).astype("<i4"))


def _merged(
    rows: Sequence[tuple[str, int, bytes]], numbers: _Numbers
) -> Iterator[tuple[str, bytes]]:
    """`(term, body)` of `rows`, which are sorted by term, then segment. All at once: numpy costs as
    much for a posting as for a thousand."""
    sizes = np.array([len(body) // 5 for _, _, body in rows], dtype=np.int64)
    old = np.frombuffer(b"".join([body[: len(body) // 5 * 4] for _, _, body in rows]), "<i4")
    tfs = np.frombuffer(b"".join([body[len(body) // 5 * 4 :] for _, _, body in rows]), np.uint8)
    begin = np.array([numbers.begin[segment] for _, segment, _ in rows], dtype=np.int64)
    new = numbers.new[old + np.repeat(begin, sizes)]
    keep = new >= 0
    docs, frequencies = new[keep].tobytes(), tfs[keep].tobytes()
    # How many are kept before each row.
    before = np.concatenate(([0], np.cumsum(keep)))[np.concatenate(([0], np.cumsum(sizes)))]
    first = 0
    for term, group in groupby(rows, key=itemgetter(0)):
        last = first + sum(1 for _ in group)
        a, b = int(before[first]), int(before[last])
        if b > a:
            yield term, docs[4 * a : 4 * b] + frequencies[a:b]
        first = last


async def _portions(
    conn: Connection, segment_ids: Sequence[int]
) -> AsyncIterator[list[tuple[str, int, bytes]]]:
    """Postings by term, then segment, in portions that never cut a term in two."""
    async with conn.cursor(name="merge", withhold=False) as cursor:
        await cursor.execute(
            "SELECT term, segment_id, body FROM posting WHERE segment_id = ANY(%s)"
            " ORDER BY term, segment_id",
            (list(segment_ids),),
        )
        held: list[tuple[str, int, bytes]] = []
        while rows := await cursor.fetchmany(FETCH_ROWS):
            held += [(term, segment, bytes(body)) for term, segment, body in rows]
            last = held[-1][0]
            cut = next(i for i in range(len(held), 0, -1) if i == 1 or held[i - 2][0] != last) - 1
            if cut:
                yield held[:cut]
                held = held[cut:]
        if held:
            yield held


async def live(
    conn: Connection,
    repo_id: int,
    collection: str,
    *,
    number: int,
    only: Sequence[int] | None = None,
) -> list[Stored]:
    """The segments a reader of revision `number` would use, with the documents alive there; of `only`
    these, if given."""
    cursor = await conn.execute(
        "SELECT s.id, s.ids, s.lengths,"
        "       (SELECT d.docs FROM segment_dead d WHERE d.segment_id = s.id AND d.rev <= %(number)s"
        "         ORDER BY d.rev DESC LIMIT 1)"
        "  FROM segment s WHERE s.repo_id = %(repo)s AND s.collection = %(collection)s"
        "   AND s.rev_from <= %(number)s AND (s.rev_to IS NULL OR s.rev_to > %(number)s)"
        "   AND s.replaced_at IS NULL AND (%(only)s::bigint[] IS NULL OR s.id = ANY(%(only)s))"
        " ORDER BY s.id",
        {"repo": repo_id, "collection": collection, "number": number, "only": only},
    )
    return [_stored(*row) for row in await cursor.fetchall()]


def _stored(segment_id: int, ids: bytes, lengths: bytes, dead: bytes | None) -> Stored:
    sizes = np.frombuffer(lengths, "<i4")
    alive = np.ones(len(sizes), dtype=np.bool_)
    if dead:
        alive[np.frombuffer(dead, "<i4")] = False
    return Stored(segment_id, bytes(ids), sizes, alive, alive)


async def _changed_ids(conn: Connection, draft: Draft) -> tuple[bytes, bytes]:
    """Ids of the chunks that leave with `draft` and of those that come, 16 bytes each."""
    cursor = await conn.execute(
        "SELECT m.rev_from = %(number)s AS comes, f.id"
        f"  FROM file_member m JOIN files f ON {CHUNKS_OF}"
        " WHERE m.repo_id = %(repo)s AND (m.rev_from = %(number)s OR m.rev_to = %(number)s)",
        {"repo": draft.repo_id, "number": draft.number},
    )
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for comes, id_ in await cursor.fetchall():
        sides[comes].append(id_.bytes)
    return b"".join(sides[0]), b"".join(sides[1])


def _among(ids: bytes, others: bytes) -> Bools:
    """Which of `ids` are in `others`. Both halves of an id are compared as one 16-byte string; numpy
    ignores trailing zero bytes, on both sides alike, so fixed-width ids compare exactly."""
    return np.isin(np.frombuffer(ids, "S16"), np.frombuffer(others, "S16"))
