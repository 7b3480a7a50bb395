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


def _between(diffs: Sequence[_Diff], low: _Run, high: _Run, preferred: UUID) -> list[_Diff]:
    """The diffs after `low` and before `high`, all of one episode: of `preferred`, or the only one."""
    found = [d for d in diffs if low.at < d.at < high.at]
    episodes = {d.at[1] for d in found}
    if preferred in episodes:
        return [d for d in found if d.at[1] == preferred]
    return found if len(episodes) == 1 else []


def _sure(turn: _Turn, diff: _Diff) -> float:
    return OWN if diff.at[1] == turn.owner else OTHERS


def _validated(
    turn: _Turn, diffs: Sequence[_Diff], touched: Mapping[str, Sequence[str]]
) -> Iterable[Claim]:
    relation = Relation.VALIDATED_BY.value
    for diff in diffs:
        yield Claim(turn.owner, relation, diff.name, turn.test, confidence=_sure(turn, diff))
        symbols = touched.get(diff.name, ())
        for symbol in symbols if len(symbols) <= MAX_FUNCTIONS else ():
            if symbol != turn.test:
                yield Claim(turn.owner, relation, symbol, turn.test, confidence=_sure(turn, diff))


@dataclass(frozen=True, slots=True)
class _Issues:
    stated: Mapping[str, Sequence[str]]  # by diff: the issues that a text says it fixes
    named: Mapping[UUID, Sequence[str]]  # by episode: the issues that it names

    def fixed(self, turn: _Turn, diffs: Sequence[_Diff]) -> list[str]:
        """The issues that `diffs` fix: as stated, else the only issue that the red run's episode names."""
        fixed_by_text = list(dict.fromkeys(i for d in diffs for i in self.stated.get(d.name, ())))
        named = self.named.get(turn.red.episode, ())
        return fixed_by_text or (list(named) if len(named) == 1 else [])


def _fixed(turn: _Turn, diffs: Sequence[_Diff], issues: _Issues) -> Iterable[Claim]:
    if any(d.name in issues.stated for d in diffs):
        return  # the text says it, and is its own evidence
    for issue in issues.fixed(turn, diffs):
        for diff in diffs:
            yield Claim(
                turn.owner, Relation.FIXES.value, diff.name, issue, confidence=_sure(turn, diff)
            )


def _caused(
    turn: _Turn, fixing: Sequence[_Diff], issues: _Issues, diffs: Sequence[_Diff]
) -> Iterable[Claim]:
    if turn.good is None:
        return  # it may never have worked
    breaking = _between(diffs, turn.good, turn.broken, turn.broken.episode)
    for issue in issues.fixed(turn, fixing):
        for diff in breaking:
            yield Claim(turn.owner, Relation.CAUSES.value, diff.name, issue, confidence=GUESSED)


async def _functions(
    conn: Connection, repo_id: int, fixing: Sequence[tuple[_Turn, Sequence[_Diff]]]
) -> dict[str, list[str]]:
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
    stated: dict[str, list[str]] = {}
    for source, target in await cursor.fetchall():
        stated.setdefault(source, []).append(target)
    red = sorted({turn.red.episode for turn, _ in fixing})
    cursor = await conn.execute(q.ISSUES_OF, {"episodes": red})
    named_in: dict[UUID, list[str]] = {}
    for episode, target in await cursor.fetchall():
        named.setdefault(episode, []).append(target)
    return _Issues(stated, named)
