"""What the recorded session works on: a small repository in three languages, its later state, and runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks.goldens.wire import Message

RETRIES = '''\
"""Retries for flaky calls."""

import time


class Policy:
    """How often, and how long to wait."""

    attempts = 3

    def backoff(self, attempt: int) -> float:
        """Seconds to wait before another attempt, exponential with a ceiling."""
        return min(30.0, 0.1 * 2**attempt)


class Patient(Policy):
    """Waits longer."""

    def backoff(self, attempt: int) -> float:
        return 2 * super().backoff(attempt)


def wait(policy: Policy, attempt: int) -> None:
    """Sleep for as long as the policy says."""
    time.sleep(policy.backoff(attempt))
'''
FETCH = '''\
"""Downloads."""

from shop.retries import Patient, Policy, wait


def fetch(url: str, policy: Policy | None = None) -> bytes:
    """Download a page, waiting between attempts."""
    policy = policy or Policy()
    for attempt in range(policy.attempts):
        wait(policy, attempt)
    return b""


def fetch_all(urls: list[str]) -> list[bytes]:
    """Download pages one after another, patiently."""
    return [fetch(url, Patient()) for url in urls]
'''
TEST = """\
from shop.fetch import fetch, fetch_all
from shop.retries import Policy


def test_backoff_has_a_ceiling():
    assert Policy().backoff(20) == 30.0


def test_fetch_all_keeps_the_order():
    assert fetch_all(["a"]) == [fetch("a")]
"""
CART = """\
import { round } from "./money.js";

/** The sum of a cart, in cents. */
export function total(items) {
  return items.reduce((sum, item) => sum + round(item.price), 0);
}
"""
MONEY = """\
/** Round to whole cents. */
export function round(price) {
  return Math.round(price * 100);
}
"""
README = """\
# Shop

A page about the shop.

## Retries

Downloads are retried three times with exponential backoff.
"""
FILES: Mapping[str, str] = {
    "README.md": README,
    "shop/__init__.py": "",
    "shop/retries.py": RETRIES,
    "shop/fetch.py": FETCH,
    "tests/test_shop.py": TEST,
    "web/cart.js": CART,
    "web/money.js": MONEY,
}
# Later: one function reads otherwise, one has moved to another file, one is gone, a file is new.
LATER: Mapping[str, str] = {
    "shop/retries.py": RETRIES.replace("min(30.0", "min(60.0").partition("def wait(")[0],
    "shop/waiting.py": '"""Waiting."""\n\nimport time\n\n\ndef wait(policy, attempt):\n'
    '    """Sleep for as long as the policy says."""\n    time.sleep(policy.backoff(attempt))\n',
    "shop/fetch.py": FETCH.partition("def fetch_all")[0].replace(
        "shop.retries import Patient, Policy, wait",
        "shop.retries import Policy\nfrom shop.waiting import wait",
    ),
}
DIFF = """\
--- a/shop/retries.py
+++ b/shop/retries.py
@@ -11,4 +11,4 @@
     def backoff(self, attempt: int) -> float:
         \"\"\"Seconds to wait before another attempt, exponential with a ceiling.\"\"\"
-        return min(30.0, 0.1 * 2**attempt)
+        return min(60.0, 0.1 * 2**attempt)
"""
TRACE = """\
Traceback (most recent call last):
  File "/app/shop/fetch.py", line 10, in fetch
    wait(policy, attempt)
  File "/app/shop/retries.py", line 24, in wait
    time.sleep(policy.backoff(attempt))
ValueError: sleep length must be non-negative
"""
KEY = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"  # as a token of GitHub looks


def write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


def episodes(repo: str) -> list[Message]:
    """A failure, a success that fixes it, a conversation, and a run by somebody else: artifacts of every kind."""
    return [
        {
            "repository": repo,
            "outcome": {
                "status": "OUTCOME_STATUS_FAILURE",
                "summary": "Policy.backoff waits too short; issue #12 stays open.",
                "metrics": {"tests_failed": 1},
            },
            "agent_id": "fixer",
            "session_key": "ticket-12",
            "tags": ["retries"],
            "start_time": "2025-09-01T09:00:00Z",
            "artifacts": [
                _artifact("PLAN", "1. Read shop/retries.py. 2. Raise the ceiling of `Policy.backoff`."),
                _artifact(
                    "TEST_RESULT",
                    "FAILED tests/test_shop.py::test_backoff_has_a_ceiling - assert 30.0 == 60.0\n1 failed, 1 passed",
                    meta={
                        "command": "pytest",
                        "tests": [
                            {"name": "tests/test_shop.py::test_backoff_has_a_ceiling", "status": "failed"},
                            {"name": "tests/test_shop.py::test_fetch_all_keeps_the_order", "status": "passed"},
                        ],
                    },
                ),
                _artifact("REFLECTION", "The ceiling is asserted in a test: change both."),
            ],
        },
        {
            "repository": repo,
            "outcome": {
                "status": "OUTCOME_STATUS_SUCCESS",
                "summary": "Fixes #12: the ceiling of backoff is a minute.",
                "metrics": {"tests_passed": 2, "minutes": 7.5},
                "commit": "3f2c9ab",
                "branch": "ceiling",
            },
            "agent_id": "fixer",
            "session_key": "ticket-12",
            "tags": ["retries", "fix"],
            "start_time": "2025-09-02T09:00:00Z",
            "artifacts": [
                _artifact("DIFF", DIFF, path="shop/retries.py"),
                _artifact(
                    "TEST_RESULT",
                    "2 passed in 0.11s",
                    meta={
                        "tests": [
                            {"name": "tests/test_shop.py::test_backoff_has_a_ceiling", "status": "passed", "took_ms": 4}
                        ]
                    },
                ),
                _artifact("NOTE", "fetch_all in shop/fetch.py uses Patient, so it waits twice as long."),
                _artifact("REFLECTION", "wait() is the only caller of backoff outside of tests."),
            ],
            "evidence": [{"name": "run.log", "media_type": "text/plain", "content": "Mg=="}],
        },
        {
            "repository": repo,
            "outcome": {"status": "OUTCOME_STATUS_PARTIAL", "summary": "Talked about the cart."},
            "agent_id": "guide",
            "session_key": "chat-1",
            "start_time": "2025-09-03T09:00:00Z",
            "artifacts": [
                _turn("user", "Why is the total of the cart a cent off?"),
                _turn("assistant", "`round` in web/money.js rounds each price before the sum. Shall I move it?"),
                _turn("user", "yes please, and leave the tests alone"),
                _turn("tool", f"$ env\nGITHUB_TOKEN={KEY}\nHOME=/root"),
                _turn("assistant", "Done: total in web/cart.js rounds the sum once."),
            ],
        },
        {
            "repository": repo,
            "outcome": {"status": "OUTCOME_STATUS_UNKNOWN"},
            "agent_id": "other",
            "session_key": "chat-2",
            "artifacts": [_turn("user", "The staging server is shop-7, port 8443.")],
        },
    ]  # fmt: skip


def memories(repo: str) -> list[Message]:
    """Of every type and source; two nearly alike, one with a time it was true in, one pinned."""
    return [
        {
            "content": "Retries live in shop/retries.py; the policy is passed down from fetch.",
            "repository": repo,
            "agent_id": "fixer",
            "path": "shop/retries.py",
            "symbol": "shop.retries.Policy.backoff",
            "tags": ["retries", "where"],
            "importance": 0.8,
            "meta": {"ticket": 12},
        },
        {
            "content": "To release, bump the version and run make ship.",
            "type": "MEMORY_TYPE_PROCEDURAL",
            "source": "MEMORY_SOURCE_USER",
            "repository": repo,
            "agent_id": "fixer",
            "pinned": True,
        },
        {
            "content": "The payment provider was down on that day.",
            "type": "MEMORY_TYPE_EPISODIC",
            "source": "MEMORY_SOURCE_SYSTEM",
            "repository": repo,
            "agent_id": "fixer",
            "session_key": "ticket-12",
            "valid_from": "2025-09-05T00:00:00Z",
            "valid_to": "2025-09-06T00:00:00Z",
        },
        {
            "content": "To release, bump the version and then run make ship.",
            "type": "MEMORY_TYPE_PROCEDURAL",
            "repository": repo,
            "agent_id": "fixer",
            "importance": 0.2,
        },
    ]


def _artifact(kind: str, content: str, **more: object) -> Message:
    return {"kind": f"ARTIFACT_KIND_{kind}", "content": content, **more}


def _turn(role: str, content: str) -> Message:
    return _artifact("TURN", content, meta={"role": role})
