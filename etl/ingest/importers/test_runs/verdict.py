"""How a command that ran tests ended: by its counts, by what its runner prints, by its exit status."""

from __future__ import annotations

import re
from collections.abc import Mapping

from etl.ingest.importers.test_runs import commands, test_list

SUCCESS, FAILURE, UNKNOWN = "success", "failure", "unknown"
_LINES = 400  # the last, and as many of the first

_JS_FAILED = (
    r"\s{0,4}(?:FAIL|✕|✖|✗|×|❯)\s|\s{0,10}[1-9]\d{0,6} failing\b|not ok \d|(?:#|ℹ) fail [1-9]"
)
_JS_PASSED = r"\s{0,4}(?:PASS|✓|✔|√)\s|\s{0,10}[1-9]\d{0,6} passing\b|ok \d|(?:#|ℹ) pass [1-9]"
# By runner: how its lines begin when something failed, and when all passed.
_OUTCOME_LINES: Mapping[str, tuple[str, str]] = {
    "pytest": (
        r"(?:FAILED|ERROR) |ERROR: |E {3}|INTERNALERROR|[.sxX]*[FE][.FEsxX]*\s+\[ *\d+%\]",
        r"[.sxX]*\.[.sxX]*\s+\[100%\]",
    ),
    "unittest": (r"FAILED \(|(?:FAIL|ERROR): ", r"OK(?: \(|\Z)"),
    "go": (r"FAIL\b|\s{0,40}--- FAIL|panic: ", r"ok\s+\S|PASS\Z"),
    "cargo": (r"error(?:\[|:)|test result: FAILED|failures:", r"test result: ok"),
    "maven": (r"(?:\[\w+\] )?BUILD FAILURE|\[ERROR\] ", r"(?:\[\w+\] )?BUILD SUCCESS"),
    "gradle": (r"BUILD FAILED|FAILURE: ", r"BUILD SUCCESSFUL"),
    "jest": (_JS_FAILED, _JS_PASSED),
    "vitest": (_JS_FAILED, _JS_PASSED),
    "mocha": (_JS_FAILED, _JS_PASSED),
}
_PATTERNS = {
    name: (re.compile(bad), re.compile(good)) for name, (bad, good) in _OUTCOME_LINES.items()
}  # by runner
_NONE_RAN = re.compile(
    r"(?:=+ ?)?(?:no tests ran|collected 0 items|no tests? (?:files )?found)\b", re.IGNORECASE
)


def verdict(
    name: str, command: str, output: str, counts: Mapping[str, int], *, failed: bool | None
) -> str:
    """`success`, `failure` or `unknown`. `failed`: how the whole command ended; None where the transcript
    does not say. A count of failures decides, whatever a pipe made of the exit status."""
    own = commands.exits_as_tests(command, failed=failed is True)
    by_counts = test_list.status(counts)
    if by_counts == FAILURE:
        return FAILURE
    if by_counts == SUCCESS:
        return FAILURE if failed and own else SUCCESS
    by_output = _by_output(name, output)
    if by_output or failed is None or not own:
        return by_output or UNKNOWN
    return FAILURE if failed else SUCCESS


def _by_output(name: str, output: str) -> str:
    """The outcome by the runner's own lines; "" when none of them shows it."""
    lines = [line.rstrip() for line in output.split("\n") if len(line) < 1_000]
    lines = lines if len(lines) <= 2 * _LINES else [*lines[:_LINES], *lines[-_LINES:]]
    if any(_NONE_RAN.match(line) for line in lines):
        return UNKNOWN
    if name not in _PATTERNS:
        return ""
    bad, good = _PATTERNS[name]
    if any(bad.match(line) for line in lines):
        return FAILURE
    return SUCCESS if any(good.match(line) for line in lines) else ""
