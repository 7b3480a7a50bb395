"""What each importer makes of realistic files; the files stand in tests/data/transcripts."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etl.ingest.episode_json import Read
from etl.ingest.importers import registry
from etl.ingest.importers.draft import Options, inside, repo_name
from plait.domain.errors import PlaitError, TranscriptInvalid
from plait.domain.values import Artifact, ArtifactKind, Episode
from plait.secrets.mask import masker
from plait.text.diff import parse_diff
from plait.text.test_results import results

DATA = Path(__file__).parents[1] / "data" / "transcripts"
REPO = Options(repo="shop")


def told(data: bytes, name: str = "x", options: Options = REPO, format_: str = "") -> list[Read]:
    kind = format_ or registry.detect(data[: registry.HEAD_BYTES], name)
    return list(registry.read_all(io.BytesIO(data), name, kind, options))


def episodes(data: bytes, name: str = "x", options: Options = REPO) -> list[Episode]:
    out = []
    for one in told(data, name, options):
        assert one.error is None, one.error
        if one.episode is not None:
            out.append(one.episode)
    return out


def file(name: str) -> bytes:
    return (DATA / name).read_bytes()


def of(episode: Episode, kind: ArtifactKind) -> list[Artifact]:
    return [a for a in episode.artifacts if a.kind is kind]


# -- telling them apart ----------------------------------------------------------------------------------

HEADS = [
    ("episode", b'{"repo": "x", "outcome": {"status": "success"}}', "run.json"),
    ("episode", b'\xef\xbb\xbf {"request_id": "1"}', "-"),
    ("junit", b'<?xml version="1.0"?><testsuites>', "report.xml"),
    ("junit", b'\n<testsuite name="x">', "-"),
    ("junit", '<?xml version="1.0" encoding="utf-16"?><testsuite/>'.encode("utf-16"), "a.xml"),
    ("diff", b"diff --git a/x b/x\n", "-"),
    ("diff", b"Index: src/a.c\n=====\n--- src/a.c\t(revision 1)\n", "-"),
    ("diff", b"some words\n--- a.c\n+++ b.c\n@@ -1 +1 @@\n", "-"),
    ("patch", b"From " + b"a" * 40 + b" Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\n", "-"),
    ("patch", b"Subject: [PATCH] x\nFrom: a@b\n\n", "-"),
    ("patch", b"From ana@example.com Mon Mar  2 09:00:00 2026\n", "-"),
    ("claude-code", file("claude_code.jsonl")[:65536], "-"),
    ("claude-code", file("claude_code_old.jsonl")[:300], "-"),
    ("swe-agent", file("mini.traj.json")[:65536], "-"),
    ("swe-agent", file("swe_agent_old.traj"), "-"),
    ("swe-agent", file("marshmallow-code__marshmallow-1359.traj"), "-"),
    ("swe-agent", b"{", "a.traj"),
]


@pytest.mark.parametrize(("format_", "head", "name"), HEADS)
def test_a_format_is_told_by_its_beginning(format_: str, head: bytes, name: str) -> None:
    assert registry.detect(head, name) == format_


@pytest.mark.parametrize("head", [b"", b"hello", b"\x00\x01\x02", b"\x89PNG", b"[1, 2]"])
def test_what_is_no_format_is_said_to_be_none(head: bytes) -> None:
    with pytest.raises(TranscriptInvalid, match="--format"):
        registry.detect(head, "x")


# -- Claude Code -----------------------------------------------------------------------------------------


def test_a_turn_of_claude_code_is_an_episode() -> None:
    first, second, third = episodes(file("claude_code.jsonl"), options=Options())
    assert (first.repo, first.agent_id, first.outcome.branch) == (
        "shop",
        "claude-code",
        "fix-totals",
    )
    assert {e.session_key for e in (first, second, third)} == {
        "5f3c1d2e-8a4b-4c6d-9e0f-1a2b3c4d5e6f"
    }
    assert [e.outcome.status for e in (first, second, third)] == ["success", "partial", "unknown"]
    assert first.outcome.summary.startswith("Fixed #481")
    assert first.started_at == datetime(2026, 3, 2, 9, 0, 2, 74000, tzinfo=UTC)
    prompt, *_ = of(first, ArtifactKind.TURN)
    assert prompt.content.endswith("run the tests.")  # the reminder after it was not typed
    assert prompt.meta["role"] == "user"


def test_claudes_edits_are_diffs_of_files_in_the_repository() -> None:
    first, second, _ = episodes(file("claude_code.jsonl"))
    (edit,) = of(first, ArtifactKind.DIFF)
    assert edit.path == "shop/cart.py"
    (changed,) = parse_diff(edit.content).files
    assert changed.path == "shop/cart.py"
    assert changed.hunks[0].lines[-2:] == (
        "-    return amount + discount",
        "+    return amount - discount",
    )
    assert [a.path for a in of(second, ArtifactKind.DIFF)] == ["shop/cli.py", "pyproject.toml"]
    created, both = (parse_diff(a.content) for a in of(second, ArtifactKind.DIFF))
    assert created.files[0].status == "added"
    assert len(both.files[0].hunks) == 2
    outside = [a for a in of(second, ArtifactKind.TURN) if "outside the repository" in a.content]
    assert len(outside) == 1
    assert outside[0].path == ""


def test_claudes_test_runs_have_their_results() -> None:
    first, *_ = episodes(file("claude_code.jsonl"))
    failed, passed = of(first, ArtifactKind.TEST_RESULT)
    assert [r.status for r in results(failed.content, failed.meta)] == [
        "passed",
        "failed",
        "passed",
    ]
    assert {t["status"] for t in passed.meta["tests"]} == {"passed"}
    assert failed.meta["exit_code"] == 1
    assert first.outcome.metrics["tests_passed"] == 3
    assert "tests_failed" not in first.outcome.metrics  # the last run counts


def test_claudes_plans_reflections_and_refusals_are_kept() -> None:
    first, second, third = episodes(file("claude_code.jsonl"))
    (todo,) = of(first, ArtifactKind.PLAN)
    assert todo.content.count("- [x]") == 2  # one plan in its last state
    (plan,) = of(second, ArtifactKind.PLAN)
    assert plan.content.startswith("1. Write shop/cli.py")
    said, thought = of(first, ArtifactKind.REFLECTION)
    assert said.content.startswith("Fixed #481")
    assert thought.content.startswith("The discount was added")
    assert any(a.content == "Do not push, I will review first." for a in third.artifacts)


def test_claudes_long_outputs_are_cut_to_what_tells() -> None:
    _, second, _ = episodes(file("claude_code.jsonl"))
    curl = next(a for a in second.artifacts if a.content.startswith("$ curl"))
    assert "lines cut" in curl.content
    assert "ERROR: connection refused" in curl.content
    assert curl.content.endswith("tail 99")
    assert second.outcome.metrics["lines_cut"] > 500


def test_the_session_itself_is_kept_as_evidence() -> None:
    found = episodes(file("claude_code.jsonl"), "a/b/session.jsonl")
    kept = b"".join(e.evidence[0].body for e in found)
    assert {e.evidence[0].name for e in found} == {"session.jsonl"}
    source, _ = masker().body(file("claude_code.jsonl"))
    assert all(line in source for line in kept.splitlines())
    assert kept.count(b'"tool_use_id"') == source.count(b'"tool_use_id"')


def test_an_old_session_closes_when_it_is_idle() -> None:
    data = file("claude_code_old.jsonl")
    at = datetime(2026, 3, 2, 9, 0, 30, tzinfo=UTC)
    (still_open,) = told(data, options=Options(now=at))
    assert still_open.episode is None
    assert "has not ended" in still_open.note
    (closed,) = told(data, options=Options(now=at + timedelta(hours=2)))
    assert closed.episode is not None
    assert closed.episode.outcome.summary == "Renamed."


def test_a_session_that_grows_stores_only_what_is_new() -> None:
    """However much of the file there was at an import, every request is one of the whole file's."""
    lines = file("claude_code.jsonl").splitlines(keepends=True)
    whole = {e.request_id: e.body_hash for e in episodes(b"".join(lines))}
    for n in range(1, len(lines) + 1):
        part = told(b"".join(lines[:n]), "x", Options(repo="shop", now=_seen(lines[:n])))
        for one in part:
            assert one.error is None
            if one.episode is not None:
                assert whole[one.episode.request_id] == one.episode.body_hash


def _seen(lines: Sequence[bytes]) -> datetime:
    """A moment after the last line."""
    import json

    times = [t for t in (json.loads(line).get("timestamp") for line in lines) if t]
    return datetime.fromisoformat(times[-1] if times else "2026-03-02T09:00:00Z") + timedelta(
        seconds=1
    )


# -- SWE-agent -------------------------------------------------------------------------------------------


def test_a_trajectory_is_an_episode() -> None:
    (run,) = episodes(
        file("marshmallow-code__marshmallow-1359.traj"),
        "a/marshmallow-code__marshmallow-1359.traj",
        Options(),
    )
    assert run.repo == "marshmallow-code/marshmallow"
    assert run.session_key == "marshmallow-code__marshmallow-1359"
    assert run.outcome.status == "success"
    assert run.outcome.metrics["cost_usd"] == 0.41
    assert run.artifacts[0].content.startswith("TimeDelta serialization precision")
    failing, passing = of(run, ArtifactKind.TEST_RESULT)
    assert failing.meta["tests"] == [
        {"name": "tests/test_fields.py::test_timedelta_precision", "status": "failed"}
    ]
    assert passing.meta["counts"] == {"passed": 2}
    (patch,) = of(run, ArtifactKind.DIFF)
    assert patch.path == "src/fields.py"
    (learned,) = of(run, ArtifactKind.REFLECTION)
    assert "rounding" in learned.content


def test_an_old_trajectory_that_ran_out_of_money_failed() -> None:
    (run,) = episodes(file("swe_agent_old.traj"))
    assert run.outcome.status == "failure"
    assert run.artifacts[0].content == "TimeDelta serialization precision"  # not the demonstration


def test_edits_stand_in_for_a_submission_that_is_not_there() -> None:
    data = file("marshmallow-code__marshmallow-1359.traj").replace(
        b'"submission": "diff', b'"was": "diff'
    )
    (run,) = episodes(data, "x.traj")
    (edit,) = of(run, ArtifactKind.DIFF)
    assert edit.path == "src/fields.py"
    assert "+return round(" in edit.content


def test_a_run_of_mini_swe_agent_is_an_episode() -> None:
    (run,) = episodes(file("mini.traj.json"))
    assert run.outcome.status == "failure"  # its own last tests failed
    assert run.artifacts[0].content == "Fix TimeDelta"
    (ls,) = [a for a in run.artifacts if a.content.startswith("$ ls")]
    assert ls.meta["exit_code"] == 0
    (tests,) = of(run, ArtifactKind.TEST_RESULT)
    assert tests.meta["failed"] is True


# -- the names of things ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/r/a.py", "/r", "a.py"),
        ("/r/x/../a.py", "/r/", "a.py"),
        ("a.py", "", "a.py"),
        ("./a/b.py", "/r", "a/b.py"),
        ("/rest/a.py", "/r", ""),
        ("/r/../etc/passwd", "/r", ""),
        ("../a.py", "/r", ""),
        ("a/../../b", "", ""),
        ("/etc/passwd", "", ""),
        ("/etc/passwd", "/", ""),
        ("/r", "/r", ""),
        ("C:\\src\\app\\a\\b.py", "C:\\src\\app", "a/b.py"),
        ("C:\\Windows\\x", "C:\\src", ""),
        ("a\\b.py", "/r", ""),
        ("a\nb.py", "/r", ""),
        ("a\0b", "/r", ""),
        ("", "/r", ""),
    ],
)
def test_a_path_is_inside_the_repository_or_not_there(path: str, root: str, expected: str) -> None:
    assert inside(path, root) == expected


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/home/a/my app", "my-app"),
        ("/home/a/.dotfiles/", "dotfiles"),
        ("C:\\src\\app", "app"),
        ("/", ""),
        ("", ""),
        ("/ü", ""),
    ],
)
def test_a_folder_names_a_repository(folder: str, name: str) -> None:
    assert repo_name(folder) == name


def test_an_input_that_names_no_repository_says_what_to_do() -> None:
    (one,) = told(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", options=Options())
    assert isinstance(one.error, PlaitError)
    assert "--repo" in str(one.error)


def test_an_edit_that_was_given_up_is_kept_as_a_turn() -> None:
    """Which fix was tried first? The submission has only the one that stayed."""

    def edit(old: str, new: str) -> dict[str, str]:
        action = (
            f"str_replace_editor str_replace /testbed/src/a.py --old_str '{old}' --new_str '{new}'"
        )
        return {"thought": "", "action": action, "observation": "has been edited"}

    patch = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-wait(30)\n+wait(30, fence)\n"
    run = {
        "trajectory": [edit("wait(30)", "wait(300)"), edit("wait(300)", "wait(30, fence)")],
        "info": {"exit_status": "submitted", "submission": patch},
    }
    (episode,) = episodes(json.dumps(run).encode(), "x.traj")
    tried = [a for a in episode.artifacts if a.kind is ArtifactKind.TURN]
    assert [a.path for a in tried] == ["src/a.py"]
    assert "+wait(300)" in tried[0].content
    assert tried[0].meta["role"] == "tool"
    (diff,) = (a for a in episode.artifacts if a.kind is ArtifactKind.DIFF)
    assert "+wait(30, fence)" in diff.content
    assert episode.outcome.metrics["edits"] == 2
    assert episode.outcome.metrics["edits_dropped"] == 1


def test_what_looks_like_a_header_of_a_diff_is_an_edit_too() -> None:
    action = "str_replace_editor str_replace '/testbed/@@ a.py' --old_str '-- a' --new_str '++ b'"
    step = {"thought": "", "action": action, "observation": "has been edited"}
    patch = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-wait(30)\n+wait(3)\n"
    run = {"trajectory": [step], "info": {"exit_status": "submitted", "submission": patch}}
    (episode,) = episodes(json.dumps(run).encode(), "x.traj")
    (tried,) = (a for a in episode.artifacts if a.kind is ArtifactKind.TURN)
    assert tried.content.split("\n")[1:] == ["@@ -1 +1 @@", "--- a", "+++ b"]
