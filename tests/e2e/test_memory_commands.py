"""The commands about memories and upkeep, as processes, with a server of their own each time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import LIMIT_S

NOWHERE_AGENT = "commander"


@pytest.fixture(scope="module")
def plait(command_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run one command outside every repository."""
    environment = {**command_environment, "TZ": "Europe/Berlin"}
    outside = tmp_path_factory.mktemp("outside")

    def run(*arguments: str, stdin: str = "", **more: str) -> Any:
        return subprocess.run(
            [sys.executable, "-P", "-m", "server.cli", *arguments],
            cwd=outside,
            env={**environment, **more},
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=LIMIT_S,
        )

    return run


def stored(plait: Any, text: str, *options: str) -> dict[str, Any]:
    done = plait(
        *("memory", "store", text, "--repo", "cli-memories", "--agent", NOWHERE_AGENT),
        *options,
        "--json",
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


REPO = ("--repo", "cli-memories")


def test_a_memory_goes_in_and_comes_out(plait: Any) -> None:
    first = stored(plait, "Ferries leave at nine.", "--tag", "sea", "--importance", "0.8")
    id_ = first["memory"]["id"]
    assert (first["duplicate"], first["repeated"]) == (False, False)
    shown = plait("memory", "get", id_, *REPO)
    assert shown.returncode == 0, shown.stderr
    assert "Ferries leave at nine." in shown.stdout
    listed = json.loads(plait("memory", "list", *REPO, "--tag", "sea", "--json").stdout)
    assert [m["id"] for m in listed["memories"]] == [id_]
    assert listed["memories"][0]["importance"] == pytest.approx(0.8)
    # The command's own server embeds it before it ends; what takes it too long is left to the next one.
    for _ in range(5):
        found = plait("memory", "query", "when do ferries leave", *REPO, "-k", "1", "--json")
        assert found.returncode == 0, found.stderr
        if not json.loads(found.stdout)["degraded"]:
            break
        stored(plait, "Ferries are white.")
    (match,) = json.loads(found.stdout)["matches"]
    assert match["memory"]["id"] == id_
    assert "semantic" in match["arms"]


def test_a_memory_from_standard_input_is_found_in_the_terminal(plait: Any) -> None:
    done = plait("memory", "store", "-", *REPO, stdin="Line one\nLine two \x1b[31mred\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Stored ")
    listed = plait("memory", "list", *REPO, "-n", "1")
    assert "Line one" in listed.stdout
    assert "\x1b" not in listed.stdout


def test_standard_input_that_is_no_text_is_refused(plait: Any) -> None:
    done = plait("memory", "store", "-", *REPO, stdin="a\udcffb")
    assert done.returncode == 1
    assert "not UTF-8 (byte 2)" in done.stderr
    assert "[INVALID_INPUT]" in done.stderr


def test_as_of_words_are_said_back_as_an_instant(plait: Any) -> None:
    done = plait("memory", "list", *REPO, "--recorded-as-of", "2001-02-03")
    assert (done.returncode, done.stdout) == (3, "")
    assert "what was known at 2001-02-03 23:59:59+01:00" in done.stderr
    bad = plait("memory", "list", *REPO, "--as-of", "some day", "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["error"]["reason"] == "TIME_NOT_UNDERSTOOD"
    assert "last Tuesday" in bad.stderr


def test_deleting_keeps_history(plait: Any) -> None:
    id_ = stored(plait, "Short-lived.")["memory"]["id"]
    assert f"Closed {id_}" in plait("memory", "delete", id_, *REPO).stderr
    again = plait("memory", "delete", id_, *REPO)
    assert (again.returncode, f"Closed before: {id_}" in again.stderr) == (0, True)
    now = json.loads(plait("memory", "list", *REPO, "--json").stdout)
    assert id_ not in {m["id"] for m in now["memories"]}
    history = json.loads(plait("memory", "list", *REPO, "--history", "--json").stdout)
    closed = {m["id"]: m for m in history["memories"]}[id_]
    assert closed["superseded_at"] is not None


def test_learning_a_turn(plait: Any) -> None:
    done = plait(
        *("memory", "learn", *REPO, "--agent", NOWHERE_AGENT, "--json"),
        *("--user", "Remember that tabs are forbidden in YAML files."),
        *("--assistant", "I will use spaces."),
        *("--tool", "yamllint=ok"),
    )
    assert done.returncode == 0, done.stderr
    learned = json.loads(done.stdout)
    assert any("tabs are forbidden" in m["content"] for m in learned["memories"])


def test_forgetting_asks_first_and_says_what_is_left(plait: Any) -> None:
    id_ = stored(plait, "Nobody should ever read this sentence about walnuts.")["memory"]["id"]
    asked = plait("forget", id_, *REPO)
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    would = json.loads(plait("forget", id_, *REPO, "--dry-run", "--json").stdout)
    assert (would["memories"], would["dry_run"]) == (1, True)
    unknown = "0198c5f2-0000-7000-8000-000000000000"
    done = plait("forget", id_, unknown, *REPO, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert receipt["unmatched_ids"] == [unknown]
    assert receipt["memory_ids"] == [id_]
    assert not any(receipt["left"].values())
    again = plait("forget", id_, *REPO, "--yes")
    assert (again.returncode, "nothing matches" in again.stderr) == (3, True)
    assert f"{id_} matched nothing" in again.stderr
    gone = plait("memory", "get", id_, *REPO)
    assert "[MEMORY_NOT_FOUND]" in gone.stderr
    assert plait("forget", *REPO).returncode == 2


def test_compacting_shows_why_and_can_be_undone(plait: Any) -> None:
    for session in ("a", "b", "c"):
        stored(plait, "The same insight again.", "--session", session)
    scope = (*REPO, "--agent", NOWHERE_AGENT)
    would = plait("compact", *scope, "--dry-run")
    assert would.returncode == 0, would.stderr
    assert "deduplicate" in would.stdout
    assert "Would close" in would.stderr
    done = json.loads(plait("compact", *scope, "--json").stdout)
    assert done["closed"] >= 2
    assert all(step["reason"] for step in done["steps"])
    undone = plait("compact", "--undo", done["id"])
    assert undone.returncode == 0, undone.stderr
    assert f"{done['closed']:,} memories" in undone.stdout
    assert plait("compact", *REPO).returncode == 2
    for session in ("a", "b"):
        text = ("memory", "store", "Nobody's insight, kept twice.", *REPO, "--session", session)
        assert plait(*text).returncode == 0
    nobodys = json.loads(plait("compact", *REPO, "--no-agent", "--json").stdout)
    assert (nobodys["examined"] >= 2, nobodys["closed"]) == (True, 1)


def test_verify_and_rebuild(plait: Any) -> None:
    stored(plait, "To be seen in the graph.")
    done = plait("verify", *REPO)
    assert done.returncode == 0, done.stderr
    assert "cli-memories: agrees" in done.stdout
    rebuilt = plait("rebuild", *REPO, "--json")
    assert rebuilt.returncode == 0, rebuilt.stderr
    (one,) = json.loads(rebuilt.stdout)["repositories"]
    assert one["consistent"]
    assert one["repository"] == "cli-memories"


def test_a_memory_command_needs_to_know_where(plait: Any, fresh_home: Path) -> None:
    # A home of its own: where one repository alone is indexed, that one is meant.
    words = ("memory", "get", "01a2016a-9e55-7000-8000-016f85624547")
    done = plait(*words, PLAIT_HOME=str(fresh_home))
    assert done.returncode == 1
    assert "--repo" in done.stderr


def test_usage_errors_and_help(plait: Any) -> None:
    assert plait("memory").returncode == 2
    assert plait("memory", "nonsense").returncode == 2
    for words in (("memory", "--help"), ("memory", "store", "--help"), ("forget", "--help")):
        done = plait(*words)
        assert done.returncode == 0
        assert "--repo" in done.stdout or "plait memory store" in done.stdout
    assert plait("memory", "list", *REPO, "-n", "0").returncode == 2
    bad = plait("memory", "store", "x", *REPO, "--meta", "[1]")
    assert "[INVALID_INPUT]" in bad.stderr
    assert "Traceback" not in bad.stderr
