"""The outcome of an imported session is that of its last run of tests, with or without counts."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etl.ingest.importers import claude_code
from etl.ingest.importers.draft import Options
from plait.domain.values import Episode

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
# command, what it prints, whether the tool said that it failed: a run that failed, one that passed.
FAILED = {
    "pytest": ("pytest", "F.\n=== 1 failed, 1 passed in 0.10s ===", True),
    "pytest-quiet": ("pytest -q", "F.   [100%]\n1 failed, 1 passed in 0.10s", True),
    "pytest-dots": ("python -m pytest -qq", "F.   [100%]\nE   assert 1 == 2", True),
    "pytest-piped": ("pytest -q 2>&1 | tail -3", "1 failed, 1 passed in 0.10s", False),
    "pytest-silent": ("pytest -q > /dev/null 2>&1", "Exit code 1", True),
    "pytest-broken": ("pytest -q", "ERROR: file or directory not found: tests/x", True),
    "unittest": ("python -m unittest", "F\n\nRan 2 tests in 0.001s\n\nFAILED (failures=1)", True),
    "go": ("go test ./...", "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\tx/a\t0.01s\nok\tx/b\t0.01s", True),
    "go-build": ("go test ./...", "x/a/a.go:3: undefined: y\nFAIL\tx/a [build failed]", True),
    "go-piped": ("go test ./... | tail -2", "FAIL\tx/a\t0.01s\nFAIL", False),
    "cargo": ("cargo test", "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured", True),
    "cargo-compile": ("cargo test", "error[E0425]: cannot find value\nerror: could not compile", True),
    "jest": ("npx jest", "FAIL src/a.test.js\nTests:       1 failed, 2 passed, 3 total", True),
    "jest-silent": ("npx jest --silent 2>&1 | head", "FAIL src/a.test.js", False),
    "mocha": ("npx mocha", "  2 passing (5ms)\n  1 failing", True),
    "node": ("node --test", "# tests 2\n# pass 1\n# fail 1", True),
    "mvn": ("mvn test", "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0", True),
    "mvn-build": ("mvn -q test", "[ERROR] COMPILATION ERROR\n[INFO] BUILD FAILURE", True),
    "gradle": ("./gradlew test", "1 test completed, 1 failed\nBUILD FAILED in 2s", True),
    "make": ("make test", "make: *** [test] Error 1", True),
}  # fmt: skip
PASSED = {
    "pytest": ("pytest", "..\n=== 2 passed in 0.10s ===", False),
    "pytest-quiet": ("pytest -q", "..   [100%]\n2 passed in 0.10s", False),
    "pytest-dots": ("python -m pytest -qq", "..   [100%]", False),
    "pytest-piped": ("pytest -q 2>&1 | tail -3", "2 passed, 1 warning in 0.10s", False),
    "pytest-silent": ("pytest -q > /dev/null 2>&1", "", False),
    "pytest-then": ("cd app && pytest -qq tests && echo done", "done", False),
    "unittest": ("python -m unittest -q", "Ran 2 tests in 0.001s\n\nOK", False),
    "go": ("go test ./...", "ok  \tx/a\t0.01s\nok  \tx/b\t(cached)\n?   \tx/c\t[no test files]", False),
    "go-piped": ("go test ./... | tail -2", "ok  \tx/a\t0.01s", False),
    "cargo": ("cargo test -q", "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored", False),
    "cargo-silent": ("cargo test -q >/dev/null", "", False),
    "jest": ("npx jest", "PASS src/a.test.js\nTests:       3 passed, 3 total", False),
    "jest-silent": ("npx jest --silent 2>&1 | head", "PASS src/a.test.js", False),
    "mocha": ("npx mocha", "  3 passing (5ms)", False),
    "node": ("node --test", "# tests 2\n# pass 2\n# fail 0", False),
    "mvn": ("mvn test", "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0", False),
    "mvn-quiet": ("mvn -q test", "", False),
    "mvn-build": ("mvn test -DskipITs | tail -2", "[INFO] BUILD SUCCESS", False),
    "gradle": ("./gradlew test", "BUILD SUCCESSFUL in 2s", False),
    "make": ("make test", "", False),
}  # fmt: skip
UNKNOWN = {
    "piped to nothing": ("pytest -qq | tail -1", "", False),
    "forced to succeed": ("pytest -qq || true", "", False),
    "something after it": ("pytest -qq; git status --short", " M a.py", False),
    "in the background": ("pytest -q &", "[1] 4242", False),
    "no tests": ("pytest -q", "no tests ran in 0.01s", True),
}
Run = tuple[str, str, bool]


def session(*runs: Run, **given: Any) -> Episode:
    lines: list[tuple[str, dict[str, Any]]] = [("user", {"content": "make the tests pass"})]
    for n, (command, output, failed) in enumerate(runs):
        call = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "Bash",
            "input": {"command": command, **given},
        }
        said = f"Exit code 1\n{output}" if failed and not output.startswith("Exit") else output
        result = {
            "type": "tool_result",
            "tool_use_id": f"t{n}",
            "content": said,
            "is_error": failed,
        }
        lines.append(("assistant", {"content": [call], "stop_reason": "tool_use"}))
        lines.append(("user", {"content": [result]}))
    done = [{"type": "text", "text": "Done."}]
    lines.append(("assistant", {"content": done, "stop_reason": "end_turn"}))
    body = "".join(
        json.dumps(
            {
                "type": kind, "message": {"role": kind, **message}, "cwd": "/src/app", "sessionId": "s",
                "timestamp": (AT + timedelta(seconds=n)).isoformat(),
            }
        ) + "\n"
        for n, (kind, message) in enumerate(lines)
    )  # fmt: skip
    read = claude_code.read(
        io.BytesIO(body.encode()), "s.jsonl", Options(now=AT + timedelta(days=1))
    )
    (episode,) = (one.episode for one in read if one.episode)
    return episode


@pytest.mark.parametrize("name", FAILED)
def test_a_run_that_failed_after_one_that_passed_is_a_failure(name: str) -> None:
    assert session(PASSED["pytest"], FAILED[name]).outcome.status == "failure"


@pytest.mark.parametrize("name", PASSED)
def test_a_run_that_passed_after_one_that_failed_is_a_success(name: str) -> None:
    assert session(FAILED["pytest"], PASSED[name]).outcome.status == "success"


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_last_run_that_does_not_tell_leaves_nothing_of_an_earlier_one(name: str) -> None:
    for earlier in (FAILED["pytest"], PASSED["pytest"]):
        outcome = session(earlier, UNKNOWN[name]).outcome
        assert outcome.status == "unknown"
        assert not [m for m in outcome.metrics if m.startswith("tests_")]


def test_the_counts_are_those_of_the_last_run() -> None:
    outcome = session(FAILED["pytest"], PASSED["jest"]).outcome
    assert (outcome.metrics["tests_passed"], outcome.metrics.get("tests_failed")) == (3, None)
    assert outcome.metrics["test_runs"] == 2


def test_a_run_that_the_agent_did_not_wait_for_does_not_tell() -> None:
    run = ("pytest -q", "Command running in background with ID: b1", False)
    assert session(run, run_in_background=True).outcome.status == "unknown"


def test_a_command_that_runs_no_tests_changes_nothing() -> None:
    after = ("ruff check .", "Found 1 error.", True)
    assert session(PASSED["pytest"], after).outcome.status == "success"
    assert session(FAILED["pytest"], ("git commit -qm x", "", False)).outcome.status == "failure"


def test_a_linter_that_fails_behind_passing_tests_is_no_failing_run() -> None:
    run = ("pytest -q && ruff check .", "2 passed in 0.10s\nFound 1 error.", True)
    assert session(run).outcome.status == "success"


def test_a_runner_that_fails_with_all_tests_passed_is_a_failure() -> None:
    run = ("pytest -q --cov-fail-under=90", "2 passed in 0.10s\nCoverage failure: 80 < 90", True)
    assert session(run).outcome.status == "failure"
