"""Test results of an artifact: from `meta.tests`, or read from what common runners print.

`meta.tests` is a list of `{"name": …, "status": "passed" | "failed" | "error" | "skipped",
"took_ms": …}`. What a runner's output does not say is not made up: no name, no result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plait.text.test_names import MAX_NAME

MAX_RESULTS = 5_000  # of one artifact; a longer run is cut, failures first
MAX_LINE = 2_000

_STATUS = {
    "passed": "passed", "pass": "passed", "ok": "passed", "success": "passed", "succeeded": "passed",
    "xpassed": "passed", "xpass": "passed",
    "failed": "failed", "fail": "failed", "failure": "failed", "broken": "failed",
    "error": "error", "errored": "error", "err": "error",
    "skipped": "skipped", "skip": "skipped", "ignored": "skipped", "pending": "skipped",
    "xfailed": "skipped", "xfail": "skipped", "disabled": "skipped", "todo": "skipped",
}  # fmt: skip
WORST = {"failed": 3, "error": 3, "passed": 2, "skipped": 1}


@dataclass(frozen=True, slots=True)
class TestRun:
    """One test's result as its tool named it. `status`: passed, failed, error or skipped."""

    __test__ = False  # pytest would collect it

    reported: str
    status: str
    took_ms: float | None = None


_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_WORD = r"PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS"
# Each pattern's groups: name and status, and where printed a time with its unit.
_LINES = tuple(
    re.compile(p)
    for p in (
        # pytest -v, and its xdist form with the worker before
        rf"(?P<name>[^\s:]{{1,400}}::[^\n]{{1,400}}?) (?P<status>{_WORD})(?: +\[ *\d{{1,3}}%\])?",
        rf"\[gw\d{{1,3}}\] \[ *\d{{1,3}}%\] (?P<status>{_WORD}) (?P<name>[^\s:]{{1,400}}::[^\n]{{1,400}})",
        # pytest's short summary
        r"(?P<status>PASSED|FAILED|ERROR|SKIPPED) (?P<name>[^\s:]{1,400}::[^\n]{1,400}?)(?: - .{0,2000})?",
        # unittest -v
        r"(?P<name>\w{1,300} \([\w.]{1,600}\)) \.\.\. (?P<status>ok|FAIL|ERROR|skipped)\b.{0,500}",
        r"(?P<status>FAIL|ERROR): (?P<name>\w{1,300} \([\w.]{1,600}\)).{0,300}",
        # go test -v
        r"\s{0,40}--- (?P<status>PASS|FAIL|SKIP): (?P<name>\S{1,400})(?: \((?P<took>[\d.]{1,12})(?P<unit>s)\))?",
        # cargo test
        r"test (?P<name>[\w:]{1,400}) \.\.\. (?P<status>ok|FAILED|ignored)\b.{0,200}",
        # gradle; Maven's failures
        r"(?P<name>[\w.$]{1,400} > [^\n]{1,300}?) (?P<status>PASSED|FAILED|SKIPPED)",
        r"\[ERROR\] +(?P<name>[\w.$]{1,400}[.#]\w{1,200})(?::\d{1,7})?.{0,300}(?P<status>FAILURE|ERROR)!.{0,100}",
        # TAP
        r"(?P<status>ok|not ok) \d{1,7}(?: -)? (?P<name>[^#\n]{1,400}?)(?: *# *(?P<directive>(?i:skip|todo)).{0,300})?",
    )
)  # fmt: skip


def results(content: str, meta: Mapping[str, Any]) -> list[TestRun]:
    """The results of a test_result artifact, in their order, at most `MAX_RESULTS`."""
    listed = meta.get("tests")
    found = list(_from_meta(listed) if isinstance(listed, list | tuple) else _from_output(content))
    if len(found) <= MAX_RESULTS:
        return found
    keep = sorted(range(len(found)), key=lambda i: (-WORST[found[i].status], i))[:MAX_RESULTS]
    return [found[i] for i in sorted(keep)]


def _from_meta(listed: list[Any] | tuple[Any, ...]) -> Iterator[TestRun]:
    for one in listed:
        if not isinstance(one, Mapping):
            continue
        name, status, took = one.get("name"), one.get("status"), one.get("took_ms")
        if not isinstance(name, str) or not name.strip() or not isinstance(status, str):
            continue
        known = _STATUS.get(status.strip().lower())
        if known is not None:
            yield TestRun(name.strip()[:MAX_NAME], known, _finite(took))


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # JSON's integers have no bound
        return None
    return number if math.isfinite(number) else None


def _from_output(content: str) -> Iterator[TestRun]:
    """One a name and place; a summary that repeats results above adds nothing."""
    seen: dict[str, str] = {}
    for line in content.split("\n"):
        line = line.rstrip()
        if not 4 <= len(line) <= MAX_LINE:
            continue
        if "\x1b" in line:
            line = _ANSI.sub("", line)
        for pattern in _LINES:
            match = pattern.fullmatch(line)
            if match is None:
                continue
            run = _run(match)
            if run is not None and seen.get(run.reported) != run.status:
                seen[run.reported] = run.status
                yield run
            break


def _run(match: re.Match[str]) -> TestRun | None:
    groups = match.groupdict()
    word = groups["status"].lower()
    status = "failed" if word == "not ok" else _STATUS[word]
    if groups.get("directive"):
        status = "skipped"
    took = groups.get("took")
    return TestRun(
        groups["name"].strip(),
        status,
        float(took) * 1000 if took and took.count(".") < 2 and took != "." else None,
    )
