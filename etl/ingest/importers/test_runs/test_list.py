"""Lists of test results as artifacts carry them: `meta.tests`, within the limit of one artifact."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from plait.text.test_results import TestRun

MAX_TESTS_BYTES = 40_000  # as JSON: room for the rest of `meta`, whose limit is 65,536
MAX_NAME = 500


def entry(run: TestRun) -> dict[str, Any]:
    out: dict[str, Any] = {"name": run.reported[:MAX_NAME], "status": run.status}
    if run.took_ms is not None:
        out["took_ms"] = round(run.took_ms, 3)
    return out


def portions(runs: Iterable[TestRun]) -> Iterator[list[dict[str, Any]]]:
    """The results in lists that each fit an artifact's `meta`; at least one list, empty for none."""
    portion: list[dict[str, Any]] = []
    size = 0
    for run in runs:
        one = entry(run)
        cost = len(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace")) + 2
        if portion and size + cost > MAX_TESTS_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(one)
        size += cost
    yield portion


def counts(runs: Sequence[TestRun]) -> dict[str, int]:
    """How many passed, failed, broke and were skipped: all four keys."""
    out = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    for run in runs:
        out[run.status] += 1
    return out


def summary(found: Mapping[str, int]) -> str:
    """`2 failed, 40 passed`; the worst first."""
    order = ("failed", "error", "passed", "skipped")
    parts = [f"{found[k]} {_noun(k, found[k])}" for k in order if found.get(k)]
    return ", ".join(parts) or "no tests"


def _noun(key: str, n: int) -> str:
    return "errors" if key == "error" and n != 1 else key


def status(found: Mapping[str, int]) -> str:
    """An outcome's status: `unknown` where nothing ran."""
    if found.get("failed") or found.get("error"):
        return "failure"
    return "success" if found.get("passed") else "unknown"
