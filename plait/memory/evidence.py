"""Failing → green: which diff turned a test, what that fixes, and which diff had broken it.

A test's history is its runs in the order in which they began. Where a run passes after one that failed,
the diffs between them are the evidence: (Diff) VALIDATED_BY (Test), and so for the functions it touches;
it FIXES the issue that the failing run's episode names, if it names one; and the diffs between the last
good run and the first bad one CAUSE what is fixed. The passing run's episode is the evidence. A test that
was never seen failing proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from plait.domain.graph import Relation
from plait.ports.evidence import Diff, EvidenceEdge, Fixing, IssueLinks, Run, Turn

MAX_FUNCTIONS = 20  # a diff that touches more says nothing of each

# Of one's own diff, of the one other episode's between; guessed.
OWN, OTHERS, GUESSED = 0.9, 0.7, 0.6


def turns(owner: UUID, test: str, runs: Sequence[Run]) -> list[Turn]:
    """Where `owner`'s runs in a test's history, oldest first, are the first green ones."""
    found = []
    for i in range(1, len(runs)):
        if runs[i].failed or runs[i].episode != owner or not runs[i - 1].failed:
            continue
        first = i - 1
        while first > 0 and runs[first - 1].failed:
            first -= 1
        good = runs[first - 1] if first > 0 else None
        found.append(Turn(owner, test, good, runs[first], runs[i - 1], runs[i]))
    return found


def fixing(turns: Sequence[Turn], diffs: Sequence[Diff]) -> list[tuple[Turn, list[Diff]]]:
    """The diffs that turned each test, by position; turns without one are left out."""
    found = [(turn, _between(diffs, turn.red, turn.green, turn.owner)) for turn in turns]
    return [(turn, between) for turn, between in found if between]


def edges(
    fixing: Fixing,
    diffs: Sequence[Diff],
    touched: Mapping[str, Sequence[str]],
    issues: IssueLinks,
) -> list[EvidenceEdge]:
    """What `fixing` proves. `touched`: functions by the name of a diff's node."""
    found: list[EvidenceEdge] = []
    for turn, between in fixing:
        found += _validated(turn, between, touched)
        found += _fixed(turn, between, issues)
        found += _caused(turn, between, issues, diffs)
    return found


def strongest(
    edges: Sequence[EvidenceEdge],
) -> dict[tuple[UUID, str, str, str], EvidenceEdge]:
    """One edge a key: of the highest confidence, of equal ones the first."""
    best: dict[tuple[UUID, str, str, str], EvidenceEdge] = {}
    for edge in edges:
        known = best.get(edge.key)
        if known is None or known.confidence < edge.confidence:
            best[edge.key] = edge
    return best


def _between(diffs: Sequence[Diff], low: Run, high: Run, preferred: UUID) -> list[Diff]:
    """The diffs after `low` and before `high`, all of one episode: of `preferred`, or the only one."""
    found = [d for d in diffs if low.at < d.at < high.at]
    episodes = {d.at[1] for d in found}
    if preferred in episodes:
        return [d for d in found if d.at[1] == preferred]
    return found if len(episodes) == 1 else []


def _sure(turn: Turn, diff: Diff) -> float:
    return OWN if diff.at[1] == turn.owner else OTHERS


def _validated(
    turn: Turn, diffs: Sequence[Diff], touched: Mapping[str, Sequence[str]]
) -> Iterable[EvidenceEdge]:
    relation = Relation.VALIDATED_BY.value
    for diff in diffs:
        yield EvidenceEdge(turn.owner, relation, diff.name, turn.test, confidence=_sure(turn, diff))
        symbols = touched.get(diff.name, ())
        for symbol in symbols if len(symbols) <= MAX_FUNCTIONS else ():
            if symbol != turn.test:
                yield EvidenceEdge(
                    turn.owner, relation, symbol, turn.test, confidence=_sure(turn, diff)
                )


def _issues_fixed(turn: Turn, diffs: Sequence[Diff], issues: IssueLinks) -> list[str]:
    """What `diffs` fix: by their own texts, or the one issue that the red run's episode names."""
    stated = list(dict.fromkeys(i for d in diffs for i in issues.fixed_by.get(d.name, ())))
    named = issues.named_in.get(turn.red.episode, ())
    return stated or (list(named) if len(named) == 1 else [])


def _fixed(turn: Turn, diffs: Sequence[Diff], issues: IssueLinks) -> Iterable[EvidenceEdge]:
    if any(d.name in issues.fixed_by for d in diffs):
        return  # the text says it, and is its own evidence
    for issue in _issues_fixed(turn, diffs, issues):
        for diff in diffs:
            yield EvidenceEdge(
                turn.owner, Relation.FIXES.value, diff.name, issue, confidence=_sure(turn, diff)
            )


def _caused(
    turn: Turn, fixing: Sequence[Diff], issues: IssueLinks, diffs: Sequence[Diff]
) -> Iterable[EvidenceEdge]:
    if turn.good is None:
        return  # it may never have worked
    breaking = _between(diffs, turn.good, turn.broken, turn.broken.episode)
    for issue in _issues_fixed(turn, fixing, issues):
        for diff in breaking:
            yield EvidenceEdge(
                turn.owner, Relation.CAUSES.value, diff.name, issue, confidence=GUESSED
            )
