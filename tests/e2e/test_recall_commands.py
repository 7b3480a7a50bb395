"""`plait recall`, `plait feedback` and what search explains, as processes, in a folder that is indexed,
with a `plait serve` that answers them."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.client import discovery
from tests.processes import LIMIT_S, patient, wait_until

REPO = "cli-recall"
CODE = '''\
"""Lighthouses."""


def blink_interval(tower: str) -> float:
    """Seconds between two flashes of a lighthouse."""
    return 2.5 + len(tower)


def flash(tower: str) -> None:
    """Light the lamp of a lighthouse once an interval."""
    blink_interval(tower)
'''
TRACE = """\
Traceback (most recent call last):
  File "/srv/lights.py", line 11, in flash
    blink_interval(tower)
  File "/srv/lights.py", line 6, in blink_interval
    return 2.5 + len(tower)
TypeError: object of type 'int' has no len()
"""
QUESTION = "how long between two flashes of a lighthouse"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cli") / REPO
    root.mkdir()
    (root / "lights.py").write_text(CODE)
    return root


@pytest.fixture(scope="module")
def served(
    plait_home: Path, command_environment: dict[str, str], embedded_postgres_dsn: str
) -> Iterator[dict[str, str]]:
    """The environment of commands, with a `plait serve` that answers all of them."""
    serving = subprocess.Popen(
        [sys.executable, "-P", "-m", "server.cli", "serve"],
        env=command_environment,
    )

    def answers() -> bool:
        assert serving.poll() is None
        return discovery.running(plait_home) is not None

    try:
        wait_until(answers)
        yield command_environment
    finally:
        serving.terminate()
        serving.wait(LIMIT_S)


@pytest.fixture(scope="module")
def plait(served: dict[str, str], folder: Path) -> Any:
    """Run one command inside the repository, so that it is the one that is meant."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "server.cli", *patient(*arguments)],
            cwd=folder,
            env=served,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    run("index", ".", "--quiet")
    text = "Lighthouse flashes must never be faster than two seconds."
    run("memory", "store", text, "--agent", "a")

    def embedded() -> bool:
        found = run("memory", "query", "lighthouse flashes", "--json")
        return not json.loads(found.stdout)["degraded"]

    wait_until(embedded)
    return run


def recalled(plait: Any, *arguments: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(plait("recall", *arguments, "--json", **more).stdout)
    return answer


def test_the_block_is_what_goes_into_a_pipe(plait: Any) -> None:
    done = plait("recall", QUESTION)
    assert done.stdout.startswith("## Relevant Memories\n\n- [score: ")
    assert "blink_interval" in done.stdout
    assert "never be faster" in done.stdout
    assert "tokens" in done.stderr
    assert "recall " in done.stderr


def test_json_has_items_with_reasons_and_what_was_left_out(plait: Any) -> None:
    answer = recalled(plait, QUESTION, "--budget", "60", "--model", "gpt-4o")
    assert answer["tokens"] <= answer["budget"] == 60
    assert answer["counted"]["exact"]
    assert answer["omitted"]
    assert {"id", "score", "stage", "cause", "bar", "rank"} <= set(answer["omitted"][0])
    assert all(item["reasons"] for item in answer["items"])
    assert answer["kind"] == "natural"


def test_explain_and_why_not_say_what_the_stages_did(plait: Any) -> None:
    best = recalled(plait, QUESTION, "--no-receipt")["items"][0]["id"]
    unknown = str(uuid.uuid4())
    done = plait("recall", QUESTION, "--explain", "--why-not", best, "--why-not", unknown)
    assert f"{best}: it is in the answer" in done.stdout
    assert f"{unknown}: resolve dropped it (not-found)" in done.stdout
    assert "fetch #" in done.stdout
    answer = recalled(plait, QUESTION, "--off", "semantic", "--explain", "--why-not", best)
    assert "semantic" not in answer["timings"]
    assert answer["why_not"][best]["cause"] == "included"
    assert answer["items"][0]["stages"][0]["rank"] >= 1


def test_a_stage_that_is_none_is_refused_with_the_option_named(plait: Any) -> None:
    for command in ("recall", "search"):
        done = plait(command, "x", "--off", "semantics", code=1)
        assert "semantic" in done.stderr
        assert "[INVALID_INPUT]" in done.stderr


def test_search_says_why_not(plait: Any) -> None:
    hits = json.loads(plait("search", "lighthouse", "--json").stdout)["hits"]
    last = hits[-1]["id"]
    done = plait("search", "lighthouse", "-k", "1", "--why-not", last)
    assert f"{last}: format dropped it (limit)" in done.stdout


def test_a_trace_from_a_pipe_and_a_diff_from_a_file(plait: Any, folder: Path) -> None:
    answer = recalled(plait, "--trace", "-", stdin=TRACE)
    assert answer["kind"] == "stack-trace"
    assert "blink_interval" in answer["context"]
    diff = folder.parent / "change.diff"
    diff.write_text(
        "--- a/lights.py\n+++ b/lights.py\n@@ -4,3 +4,3 @@\n def blink_interval(tower: str) -> float:\n"
        '     """Seconds between two flashes of a lighthouse."""\n'
        "-    return 2.5 + len(tower)\n+    return 1.5 + len(tower)\n"
    )
    answer = recalled(plait, "is this safe", "--diff", str(diff))
    assert answer["kind"] == "diff"
    assert any("flash" in node["name"] for node in answer["impact"]["callers"])


def test_a_greeting_finds_nothing_and_says_so(plait: Any) -> None:
    done = plait("recall", "hello", code=3)
    assert done.stdout == ""
    assert done.stderr.strip()


def test_a_replay_is_the_same(plait: Any) -> None:
    first = recalled(plait, QUESTION)
    again = recalled(plait, "--replay", first["recall_id"])
    assert again["same"]
    assert again["context"] == first["context"]


def test_feedback_is_taken_in_once(plait: Any) -> None:
    first = recalled(plait, QUESTION)
    report = (
        *("feedback", first["recall_id"], "--helped", first["items"][0]["id"]),
        *("--outcome", "success", "--proof", "tests/test_lights.py::test_flash"),
    )
    assert plait(*report).stdout.startswith("accepted: 1 verdict")
    again = json.loads(plait(*report, "--json").stdout)
    assert (again["accepted"], again["repeated"]) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("recall",), "give a QUERY: what the agent is about to do"),
        (("recall", "x", "--diff", "no-such-file"), "cannot read no-such-file"),
        (("recall", "x", "--replay", str(uuid.UUID(int=1))), "leave the QUERY out"),
        (("recall", "x", "--why-not", "7"), "no id of an item"),
        (("feedback", str(uuid.UUID(int=1))), "--helped"),
        (("feedback", "7", "--outcome", "success"), "no id"),
        (
            ("feedback", str(uuid.UUID(int=1)), "--helped", str(uuid.UUID(int=2)), "--proof", "t"),
            "--outcome",
        ),
    ],
)
def test_wrong_usage_exits_2_and_says_how(
    plait: Any, arguments: tuple[str, ...], told: str
) -> None:
    assert told in plait(*arguments, code=2).stderr


def test_what_the_server_refuses_is_said_in_options(plait: Any) -> None:
    assert "--budget is -4" in plait("recall", "x", "--budget", "-4", code=1).stderr
    done = plait("feedback", str(uuid.UUID(int=1)), "--outcome", "success", code=1)
    assert "[RECALL_UNKNOWN]" in done.stderr


def test_help_has_examples(plait: Any) -> None:
    assert "git diff | plait recall" in plait("recall", "--help").stdout
    assert "--proof" in plait("feedback", "--help").stdout


def session_file(path: Path, key: str, tool: str, result: str) -> Path:
    """A Claude Code session of one prompt, one look-up and two more model calls."""
    used = {"type": "tool_use", "id": "t1", "name": tool, "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": result}
    messages: list[tuple[str, dict[str, Any]]] = [
        ("user", {"content": f"make the lamp flash, {key}"}),
        ("assistant", {"id": "m1", "content": [used], "stop_reason": "tool_use"}),
        ("user", {"content": [answer]}),
        ("assistant", {"id": "m2", "content": [{"type": "text", "text": "I see."}]}),
        (
            "assistant",
            {"id": "m3", "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"},
        ),
    ]
    lines = [
        {
            "type": role,
            "sessionId": key,
            "uuid": f"{key}-{n}",
            "cwd": "/src/lights",
            "timestamp": f"2026-03-02T09:00:0{n}Z",
            "message": {"role": role, **message},
        }
        for n, (role, message) in enumerate(messages)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_savings_are_what_transcripts_and_receipts_tell(plait: Any, tmp_path: Path) -> None:
    result = "lights.py:4 blink_interval"
    with_plait = session_file(tmp_path / "a.jsonl", "sv-with", "mcp__plait__recall", result)
    without = session_file(tmp_path / "b.jsonl", "sv-without", "Grep", result)
    twice = [str(with_plait), str(without)] * 2  # what is imported twice is counted once
    plait("ingest", *twice, "--repo", REPO)
    plait("recall", QUESTION, "--session", "sv-receipt")
    answer = json.loads(plait("savings", "--since", "2026-03-01", "-n", "1000", "--json").stdout)
    told = {one["session"]: one for one in answer["sessions"]}
    assert answer["total"]["sessions"] == len(told) == len(answer["sessions"])
    mine, theirs, receipt = told["sv-with"], told["sv-without"], told["sv-receipt"]
    assert (mine["basis"], mine["calls"], mine["plait"]["answers"]) == ("counted", 3, 1)
    assert mine["plait"]["tokens"] == theirs["searched"]["tokens"] > 0
    assert mine["plait"]["again"] == theirs["searched"]["again"] > 0
    assert mine["searched"]["total"] == mine["read"]["total"] == theirs["plait"]["total"] == 0
    assert (receipt["basis"], receipt["again_known"]) == ("receipts", False)
    assert receipt["plait"]["answers"] == 1
    assert receipt["plait"]["tokens"] > 0

    table = plait("savings", "--session", "sv-with").stdout
    assert "sv-with" in table
    assert f"{REPO}: not enough sessions to compare, 1 with Plait and 0 without" in table
    nothing = plait("savings", "--session", "sv-nobody", code=3)
    assert "plait ingest" in nothing.stderr
