"""What a test that turned green proves of the diffs before it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from plait.memory import evidence
from plait.ports.evidence import Diff, EvidenceEdge, IssueLinks, Run, Turn

TEST = "tests/test_a.py:test_a"
NO_ISSUES = IssueLinks({}, {})
FIRST, SECOND, THIRD, FOURTH = (UUID(int=n) for n in range(1, 5))  # episodes, in their order


def at(episode: UUID, item: int = 0) -> tuple[datetime, UUID, UUID]:
    began = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=episode.int)
    return began, episode, UUID(int=item)


def run(episode: UUID, item: int = 0, *, failed: bool = False) -> Run:
    return Run(at(episode, item), failed)


def diff(episode: UUID, item: int) -> Diff:
    return Diff(f"diff/{UUID(int=item)}/a.py", "a.py", at(episode, item))


def turned(*runs: Run, owner: UUID) -> list[Turn]:
    return evidence.turns(owner, TEST, runs)


def proved(
    turns: list[Turn],
    diffs: list[Diff],
    touched: dict[str, list[str]] | None = None,
    issues: IssueLinks = NO_ISSUES,
) -> set[tuple[str, str, str, float]]:
    edges = evidence.edges(evidence.fixing(turns, diffs), diffs, touched or {}, issues)
    return {(edge.relation, edge.source, edge.target, edge.confidence) for edge in edges}


def test_a_test_that_never_failed_proves_nothing() -> None:
    assert not turned(run(FIRST), run(SECOND), owner=SECOND)


def test_the_first_green_run_proves_and_the_next_does_not() -> None:
    runs = (run(FIRST, failed=True), run(SECOND), run(THIRD))
    assert len(turned(*runs, owner=SECOND)) == 1
    assert not turned(*runs, owner=THIRD)


def test_the_runs_of_one_red_streak_are_told_apart() -> None:
    red, still_red = run(SECOND, failed=True), run(THIRD, failed=True)
    (turn,) = turned(run(FIRST), red, still_red, run(FOURTH), owner=FOURTH)
    assert (turn.good, turn.broken, turn.red) == (run(FIRST), red, still_red)


def test_ones_own_diff_is_surer_than_anothers() -> None:
    turns = turned(run(FIRST, failed=True), run(THIRD, 9), owner=THIRD)
    own, others = diff(THIRD, 5), diff(SECOND, 5)
    assert proved(turns, [others, own]) == {("VALIDATED_BY", own.name, TEST, evidence.OWN)}
    assert proved(turns, [others]) == {("VALIDATED_BY", others.name, TEST, evidence.OTHERS)}


def test_diffs_of_several_other_episodes_prove_nothing() -> None:
    turns = turned(run(FIRST, failed=True), run(FOURTH), owner=FOURTH)
    assert not proved(turns, [diff(SECOND, 1), diff(THIRD, 2)])


def test_what_a_diff_touches_is_validated_unless_it_touches_too_much() -> None:
    turns = turned(run(FIRST, failed=True), run(SECOND, 9), owner=SECOND)
    own = diff(SECOND, 5)
    few = {own.name: ["a.py:f", TEST]}
    assert {target for _, _, target, _ in proved(turns, [own], few)} == {TEST}
    assert {source for _, source, _, _ in proved(turns, [own], few)} == {own.name, "a.py:f"}
    many = {own.name: [f"a.py:f{n}" for n in range(evidence.MAX_FUNCTIONS + 1)]}
    assert {source for _, source, _, _ in proved(turns, [own], many)} == {own.name}


def test_the_one_issue_of_the_red_run_is_fixed_and_was_caused() -> None:
    runs = (run(FIRST), run(SECOND, 9, failed=True), run(THIRD, 9))
    breaking, fix = diff(SECOND, 3), diff(THIRD, 5)
    turns = turned(*runs, owner=THIRD)
    one = IssueLinks({}, {SECOND: ["issue/7"]})
    assert proved(turns, [breaking, fix], issues=one) >= {
        ("FIXES", fix.name, "issue/7", evidence.OWN),
        ("CAUSES", breaking.name, "issue/7", evidence.GUESSED),
    }
    two = IssueLinks({}, {SECOND: ["issue/7", "issue/8"]})
    assert {edge[0] for edge in proved(turns, [breaking, fix], issues=two)} == {"VALIDATED_BY"}


def test_a_text_that_states_what_it_fixes_is_its_own_evidence() -> None:
    runs = (run(FIRST), run(SECOND, 9, failed=True), run(THIRD, 9))
    breaking, fix = diff(SECOND, 3), diff(THIRD, 5)
    stated = IssueLinks({fix.name: ["issue/9"]}, {SECOND: ["issue/7"]})
    found = proved(turned(*runs, owner=THIRD), [breaking, fix], issues=stated)
    assert ("CAUSES", breaking.name, "issue/9", evidence.GUESSED) in found
    assert "FIXES" not in {edge[0] for edge in found}


def test_of_equal_edges_the_surest_stays() -> None:
    weak = EvidenceEdge(FIRST, "TOUCHES", "a", "b", confidence=0.6)
    sure = weak._replace(confidence=0.9)
    assert evidence.strongest([weak, sure, weak]) == {weak.key: sure}
