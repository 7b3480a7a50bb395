"""What an episode says: nodes and edges before any store is asked."""

from __future__ import annotations

from uuid import UUID

import pytest

from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory.episode_links import MAX_DIFF_NODES, MAX_EDGES, episode_links
from plait.ports.episodes import EpisodeLinks

ME = UUID(int=0)
DIFF = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-a\n+b\n"


def heard(
    *artifacts: Artifact, summary: str = "", status: str = "success", commit: str = ""
) -> EpisodeLinks:
    episode = Episode("q", "r", Outcome(status, summary, commit=commit), artifacts)
    return episode_links(episode, ME, [UUID(int=n + 1) for n in range(len(artifacts))])


def diff(text: str = DIFF, path: str = "") -> Artifact:
    return Artifact(ArtifactKind.DIFF, text, path)


def edges(found: EpisodeLinks, *relations: str) -> set[tuple[str, str, str]]:
    def short(name: str) -> str:
        return name.replace(f"{UUID(int=1)}", "1").replace(f"{UUID(int=2)}", "2")

    return {
        (short(e.source).replace(f"{ME}", "me"), e.relation, short(e.target))
        for e in found.edges
        if not relations or e.relation in relations
    }


def test_a_diff_is_in_its_episode_and_touches_its_files() -> None:
    found = heard(diff())
    assert edges(found) == {
        ("episode/me", "CONTAINS", "diff/1/src/a.py"),
        ("episode/me", "TOUCHES", "/src/a.py"),
        ("diff/1/src/a.py", "TOUCHES", "/src/a.py"),
    }
    assert [(n.name, n.label, n.path) for n in found.nodes] == [
        (f"diff/{UUID(int=1)}/src/a.py", "Diff", "src/a.py")
    ]


def test_a_renamed_file_is_touched_under_both_names() -> None:
    text = "diff --git a/x.py b/y.py\nsimilarity index 100%\nrename from x.py\nrename to y.py\n"
    assert ("diff/1/y.py", "TOUCHES", "/x.py") in edges(heard(diff(text)))
    assert ("diff/1/y.py", "TOUCHES", "/y.py") in edges(heard(diff(text)))


def test_hunks_without_a_name_are_those_of_the_artifacts_path() -> None:
    found = heard(diff("@@ -1 +1 @@\n-a\n+b\n", "src/a.py"))
    assert found.diffs[0].files[0].path == "src/a.py"
    assert len(found.diffs[0].files[0].hunks) == 1


def test_a_path_is_no_place_to_hide_a_header() -> None:
    found = heard(diff("@@ -1 +1 @@\n-a\n+b\n", "a\n+++ b/other.py"))
    assert [f.path for f in found.diffs[0].files] == []


@pytest.mark.parametrize(
    ("artifacts", "summary", "status", "expected"),
    [
        ((diff(),), "Fixes #1", "success", {("diff/1/src/a.py", "FIXES", "issue/1")}),
        ((diff("Fixes #1\n\n" + DIFF),), "", "success", {("diff/1/src/a.py", "FIXES", "issue/1")}),
        ((), "Fixes #1", "success", {("episode/me", "FIXES", "issue/1")}),
        ((diff(),), "Fixes #1", "failure", {("episode/me", "MENTIONS", "issue/1")}),
        ((diff(),), "About #1", "success", {("episode/me", "MENTIONS", "issue/1")}),
        (
            (Artifact(ArtifactKind.TURN, "please fix #1"),),
            "",
            "success",
            {("episode/me", "MENTIONS", "issue/1")},
        ),
        (
            (),
            "Fixes #1, a regression from #2",
            "success",
            {
                ("episode/me", "FIXES", "issue/1"),
                ("episode/me", "MENTIONS", "issue/2"),
                ("issue/2", "CAUSES", "issue/1"),
            },
        ),
        (
            (),
            "#1 was caused by 3f2c9ab1",
            "success",
            {
                ("episode/me", "MENTIONS", "issue/1"),
                ("episode/me", "MENTIONS", "commit/3f2c9ab1"),
                ("commit/3f2c9ab1", "CAUSES", "issue/1"),
            },
        ),
        (
            (),
            "#1 and #2, one caused by 3f2c9ab1",
            "success",
            {
                ("episode/me", "MENTIONS", "issue/1"),
                ("episode/me", "MENTIONS", "issue/2"),
                ("episode/me", "MENTIONS", "commit/3f2c9ab1"),
            },
        ),
    ],
)
def test_issues(
    artifacts: tuple[Artifact, ...], summary: str, status: str, expected: set[tuple[str, str, str]]
) -> None:
    found = heard(*artifacts, summary=summary, status=status)
    assert edges(found, "FIXES", "CAUSES", "MENTIONS") == expected


def test_a_message_of_one_diff_is_no_claim_of_another() -> None:
    found = heard(diff("Fixes #1\n\n" + DIFF), diff(DIFF.replace("src/a", "src/b")))
    assert edges(found, "FIXES") == {("diff/1/src/a.py", "FIXES", "issue/1")}


def test_the_surest_of_two_places_counts() -> None:
    plan, told = (
        Artifact(ArtifactKind.PLAN, "fix #1"),
        Artifact(ArtifactKind.REFLECTION, "fixed #1"),
    )
    (edge,) = [e for e in heard(plan, told).edges if e.relation == "FIXES"]
    assert edge.confidence == 0.9


def test_a_note_is_a_memory_and_a_commit_a_node() -> None:
    found = heard(Artifact(ArtifactKind.NOTE, "n"), commit="ABC123")
    assert edges(found) == {
        ("episode/me", "CONTAINS", "memory/1"),
        ("episode/me", "CONTAINS", "commit/abc123"),
    }


def test_bounds() -> None:
    many = "".join(DIFF.replace("src/a.py", f"f{n}.py") for n in range(2_000))
    found = heard(diff(many), diff(many.replace("b/f", "b/g").replace("a/f", "a/g")))
    assert len(found.nodes) == MAX_DIFF_NODES
    assert len(found.edges) == MAX_EDGES
