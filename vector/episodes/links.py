"""What episodes touch and validate, settled against the published revision: hunks to functions, results
to tests, and the chains that follow from them (`vector/episodes/chains.py`).

Append stays fast by leaving this to the projector, which calls `resolve` before it computes a delta.
Everything is a function of the rows as they are, so it may run again: it then changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from plait.domain.graph import Label, Relation, decode_nodes
from plait.ports.evidence import HUNK, RUN, EvidenceEdge, EvidenceRules
from plait.text.hunk_functions import SourceFile, Span, functions
from plait.text.test_names import choose, parse_name
from vector.connection.bulk import array_literal, insert_rows
from vector.connection.clock import tick
from vector.connection.pool import Connection
from vector.episodes import chains
from vector.episodes import links_sql as q
from vector.episodes.rows import EDGE_COLUMNS

MAX_HUNKS = 20_000  # settled at once; the others keep their episode waiting for the next index
MAX_PASSED = 1_000  # VALIDATED_BY edges of one episode
NAMED = ("diff/", "issue/")
LOOSELY = "SET LOCAL synchronous_commit = off"

REQUEUE_OPEN = q.REQUEUE_OPEN


class _Hunk(NamedTuple):
    item: UUID
    ordinal: int
    path: str
    old_start: int
    new_start: int
    heading: str
    body: str


async def resolve(
    conn: Connection, repo_id: int, episodes: Sequence[UUID], rules: EvidenceRules
) -> None:
    """Settle what is open of `episodes`, and bring the edges that follow up to date. Episodes besides
    these whose edges change are queued to be projected again.

    `conn`: the owner's, in autocommit, so that it holds no row while it waits for the clock: `forget`
    has the clock when it comes to the rows.
    """
    given: dict[str, Any] = {"repo": repo_id, "episodes": list(episodes)}
    cursor = await conn.execute(q.REPOSITORY, given)
    row = await cursor.fetchone()
    if row is None or not episodes:
        return
    repo, published, settles = row
    if not settles:
        return  # no diffs, no test results: notes and turns, say
    given["at"] = published
    if published:
        await _hunks(conn, repo, given)
        await _tests(conn, given)
    owners = await chains.affected(conn, given)
    mine = {**given, "episodes": owners}
    edges = await _touching(conn, mine) + await _passed(conn, mine)
    edges += await chains.derive(conn, repo_id, owners, rules)
    await _write(conn, repo_id, set(episodes), owners, list(rules.strongest(edges).values()))


# -- hunks -------------------------------------------------------------------------------------------


async def _hunks(conn: Connection, repo: str, given: Mapping[str, Any]) -> None:
    """Fill `hunk.symbols` where the file is indexed."""
    cursor = await conn.execute(q.OPEN_HUNKS, {**given, "limit": MAX_HUNKS})
    hunks = [_Hunk(*row) for row in await cursor.fetchall()]
    if not hunks:
        return
    files = await _files(conn, repo, {**given, "paths": sorted({h.path for h in hunks})})
    settled = []
    for hunk in hunks:
        file = files.get(hunk.path)
        if file is not None:
            lines = [line for line in hunk.body.split("\n") if line]
            found = functions(lines, hunk.old_start, hunk.new_start, hunk.heading, file)
            settled.append((hunk.item, hunk.ordinal, array_literal(found)))
    if settled:
        items, ordinals, symbols = (list(column) for column in zip(*settled, strict=True))
        sent = {**given, "items": items, "ordinals": ordinals, "symbols": symbols}
        await _settle(conn, q.SET_SYMBOLS, sent)


async def _touching(conn: Connection, given: Mapping[str, Any]) -> list[EvidenceEdge]:
    """(Diff) TOUCHES (Function) for what is settled."""
    cursor = await conn.execute(q.TOUCHED, given)
    return [
        EvidenceEdge(episode, Relation.TOUCHES.value, f"diff/{item}/{path}", symbol, path, HUNK)
        for episode, item, path, symbol in await cursor.fetchall()
    ]


async def _files(conn: Connection, repo: str, given: Mapping[str, Any]) -> dict[str, SourceFile]:
    """The indexed ones of `given["paths"]`."""
    lines: dict[str, dict[int, str]] = {}
    cursor = await conn.execute(q.CHUNKS, given)
    for path, start, end, content in await cursor.fetchall():
        rows = content.split("\n")
        if rows and not rows[-1] and len(rows) == end - start + 2:
            rows.pop()
        # A class's chunk leaves its methods out: its lines can't be numbered, theirs have chunks.
        if len(rows) == end - start + 1:
            lines.setdefault(path, {}).update(enumerate(rows, start))
    spans: dict[str, list[Span]] = {}
    cursor = await conn.execute(q.NODES, given)
    for path, blob in await cursor.fetchall():
        spans[path] = [
            Span(node.id[len(repo) + 1 :], node.start_line, node.end_line)
            for node in decode_nodes(blob)
            if node.label in (Label.FUNCTION, Label.TEST) and node.path == path
        ]
    return {path: SourceFile.of(lines.get(path, {}), found) for path, found in spans.items()}


# -- tests -------------------------------------------------------------------------------------------


async def _tests(conn: Connection, given: Mapping[str, Any]) -> None:
    """Fill `test_result.test` where exactly one indexed test is meant."""
    cursor = await conn.execute(q.OPEN_TESTS, given)
    rows = await cursor.fetchall()
    if not rows:
        return
    named = {**given, "names": sorted({name for _, name in rows})}
    cursor = await conn.execute(q.TESTS_NAMED, named)
    known: dict[str, list[tuple[str, str]]] = {}
    for symbol, path, name in await cursor.fetchall():
        known.setdefault(name, []).append((symbol, path))
    found = [
        (reported, symbol)
        for reported, name in rows
        if (symbol := choose(parse_name(reported), known.get(name, ())))
    ]
    if found:
        reported, tests = (list(column) for column in zip(*found, strict=True))
        await _settle(conn, q.SET_TESTS, {**given, "reported": reported, "tests": tests})


async def _settle(conn: Connection, statement: str, given: Mapping[str, Any]) -> None:
    """Committed at once, and not waited for: a second try would find the same."""
    async with conn.transaction():
        await conn.execute(LOOSELY)
        await conn.execute(statement, given)


async def _passed(conn: Connection, given: Mapping[str, Any]) -> list[EvidenceEdge]:
    """(Episode) VALIDATED_BY (Test) for what passed in it."""
    cursor = await conn.execute(q.PASSED, given)
    edges: list[EvidenceEdge] = []
    for episode, group in groupby(await cursor.fetchall(), key=lambda row: row[0]):
        for _, test in list(group)[:MAX_PASSED]:
            source = f"episode/{episode}"
            edges.append(EvidenceEdge(episode, Relation.VALIDATED_BY.value, source, test))
    return edges


# -- edges -------------------------------------------------------------------------------------------


async def _write(
    conn: Connection,
    repo_id: int,
    batch: set[UUID],
    owners: Sequence[UUID],
    edges: Sequence[EvidenceEdge],
) -> None:
    """Open those of `edges` that are not there, close what is there and follows no more."""
    given: dict[str, Any] = {"repo": repo_id, "owners": list(owners), "resolvers": [HUNK, RUN]}
    cursor = await conn.execute(q.OPEN_EDGES, given)
    there = {tuple(row[1:]): row[0] for row in await cursor.fetchall()}
    keys = {edge.key for edge in edges}
    closing = {key: id_ for key, id_ in there.items() if key not in keys}
    opening = [edge for edge in edges if edge.key not in there]
    if not opening and not closing:
        return
    async with conn.transaction():
        await conn.execute(LOOSELY)
        # First, so that what is forgotten is gone from here on.
        at = await tick(conn, repo_id)
        cursor = await conn.execute(q.OWNERS, given)
        began: dict[UUID, datetime] = dict(await cursor.fetchall())
        lost = await _forgotten(conn, repo_id, opening)
        rows = [
            (
                repo_id, c.owner, c.relation, c.source, c.target, c.path, c.resolver, c.confidence,
                began[c.owner], at,
            )
            for c in opening
            if c.owner in began and c not in lost
        ]  # fmt: skip
        await insert_rows(conn, "memory_edge", EDGE_COLUMNS, rows)
        await conn.execute(q.CLOSE_EDGES, {"at": at, "ids": sorted(closing.values())})
        changed = {c.owner for c in opening} | {key[0] for key in closing}
        again = (changed - batch) | {c.owner for c in lost}
        if others := sorted(again & began.keys()):
            await conn.execute(q.QUEUE_AGAIN, {"repo": repo_id, "episodes": others})


async def _forgotten(
    conn: Connection, repo_id: int, edges: Sequence[EvidenceEdge]
) -> set[EvidenceEdge]:
    """Those of `edges` that tell of another episode's diff or issue, which was forgotten since: what
    their owner proves is derived again."""
    ends = {
        edge: [end for end in (edge.source, edge.target) if end.startswith(NAMED)]
        for edge in edges
        if edge.resolver == RUN
    }
    names = sorted({end for both in ends.values() for end in both})
    if not names:
        return set()
    cursor = await conn.execute(q.STILL_NAMED, {"repo": repo_id, "names": names})
    there = {name for (name,) in await cursor.fetchall()}
    return {edge for edge, both in ends.items() if not there.issuperset(both)}
