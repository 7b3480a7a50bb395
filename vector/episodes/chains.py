"""Histories of tests, read for the rules of evidence (`plait.memory.evidence`): what passing runs prove."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from plait.ports.evidence import (
    Diff,
    EvidenceEdge,
    EvidenceRules,
    Fixing,
    IssueLinks,
    Run,
    Turn,
)
from vector.connection.pool import Connection
from vector.episodes import links_sql as q

MAX_SUSPECTS = 2_000  # tests that ever failed, looked at for one batch


async def affected(conn: Connection, given: Mapping[str, Any]) -> list[UUID]:
    """Episodes whose claims may have changed by what is new in `given["episodes"]`: these themselves,
    and those that next saw one of their tests pass."""
    cursor = await conn.execute(q.SUSPECTS, {**given, "limit": MAX_SUSPECTS})
    moments = {(test, at) for test, _, at in await cursor.fetchall()}
    cursor = await conn.execute(q.LATER_RUNS, given)
    row = await cursor.fetchone()
    if (
        row is not None and row[0] is not None
    ):  # a diff that arrives after runs that it stands before
        cursor = await conn.execute(q.FAILED_EVER, {**given, "limit": MAX_SUSPECTS})
        moments |= {(test, row[0]) for (test,) in await cursor.fetchall()}
    found = set(given["episodes"])
    if moments:
        tests, times = (list(column) for column in zip(*sorted(moments), strict=True))
        cursor = await conn.execute(q.NEXT_PASSES, {**given, "tests": tests, "times": times})
        found |= {episode for (episode,) in await cursor.fetchall()}
    return sorted(found)


async def derive(
    conn: Connection, repo_id: int, episodes: Sequence[UUID], rules: EvidenceRules
) -> list[EvidenceEdge]:
    """All that the passing runs of `episodes` prove."""
    given = {"repo": repo_id, "episodes": list(episodes), "limit": MAX_SUSPECTS}
    cursor = await conn.execute(q.HISTORY, given)
    turns: list[Turn] = []
    for (owner, test), rows in groupby(await cursor.fetchall(), key=lambda row: (row[0], row[1])):
        turns += rules.turns(owner, test, [Run((r[2], r[3], r[4]), r[5]) for r in rows])
    if not turns:
        return []
    diffs = await _diffs(conn, repo_id, turns)
    fixing = rules.fixing(turns, diffs)
    touched = await _functions(conn, repo_id, fixing)
    return rules.edges(fixing, diffs, touched, await _issues(conn, repo_id, fixing))


async def _diffs(conn: Connection, repo_id: int, turns: Sequence[Turn]) -> list[Diff]:
    """The diffs of all gaps, by position."""
    gaps = {(t.red.at[0], t.green.at[0]) for t in turns}
    gaps |= {(t.good.at[0], t.broken.at[0]) for t in turns if t.good is not None}
    low, high = (list(column) for column in zip(*sorted(gaps), strict=True))
    cursor = await conn.execute(q.DIFFS_BETWEEN, {"repo": repo_id, "from": low, "to": high})
    return [
        Diff(name, path, (began, episode, _item(name)))
        for name, path, episode, began in await cursor.fetchall()
    ]


def _item(diff: str) -> UUID:
    """Of a node's name, `diff/<item>/<path>`."""
    return UUID(diff.split("/", 2)[1])


async def _functions(conn: Connection, repo_id: int, fixing: Fixing) -> dict[str, list[str]]:
    """The functions that diffs touch, by the name of the diff's node."""
    items = {diff.at[2] for _, diffs in fixing for diff in diffs}
    cursor = await conn.execute(q.SYMBOLS_OF, {"repo": repo_id, "items": sorted(items)})
    found: dict[str, list[str]] = {}
    for item, path, symbols in await cursor.fetchall():
        mine = found.setdefault(f"diff/{item}/{path}", [])
        mine += [symbol for symbol in symbols if symbol not in mine]
    return found


async def _issues(conn: Connection, repo_id: int, fixing: Fixing) -> IssueLinks:
    diffs = sorted({diff.name for _, found in fixing for diff in found})
    cursor = await conn.execute(q.FIXED_BY, {"repo": repo_id, "diffs": diffs})
    fixed_by: dict[str, list[str]] = {}
    for source, target in await cursor.fetchall():
        fixed_by.setdefault(source, []).append(target)
    red = sorted({turn.red.episode for turn, _ in fixing})
    cursor = await conn.execute(q.ISSUES_OF, {"episodes": red})
    named_in: dict[UUID, list[str]] = {}
    for episode, target in await cursor.fetchall():
        named_in.setdefault(episode, []).append(target)
    return IssueLinks(fixed_by, named_in)
