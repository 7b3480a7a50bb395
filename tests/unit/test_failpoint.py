"""Failpoints: what arms them, when they fire, and that every one stands somewhere and is described."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import settings
from plait.domain import failpoint
from plait.domain.errors import BadSettings, StoreUnavailable
from plait.domain.failpoint import Action, Failpoint

ROOT = Path(__file__).parents[2]
ROOMS = ("plait", "vector", "graph", "etl", "server")
POINT = "append.before_commit"


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoint.arm(())


def test_nothing_is_armed_by_default() -> None:
    assert settings.failpoints({}) == ()
    failpoint.arm(settings.failpoints({}))
    for name in failpoint.POINTS:
        failpoint.hit(name)


def test_the_variable_arms_and_no_settings_file_can(tmp_path: Path) -> None:
    found = settings.failpoints({"PLAIT_FAILPOINTS": f"{POINT}=error@2, answer.lost=sleep:5@3+"})
    assert found == (
        Failpoint(POINT, Action.ERROR, at=2),
        Failpoint("answer.lost", Action.SLEEP, at=3, onwards=True, sleep_ms=5),
    )
    file = tmp_path / "plait.yaml"
    file.write_text(f"failpoints: {POINT}=kill\n")
    with pytest.raises(BadSettings, match="failpoints"):
        settings.load(file, environ={})


def test_an_error_comes_at_its_hit_only() -> None:
    failpoint.arm(failpoint.parse(f"{POINT}=error@2"))
    failpoint.hit(POINT)
    with pytest.raises(StoreUnavailable, match=POINT):
        failpoint.hit(POINT)
    failpoint.hit(POINT)
    failpoint.hit("answer.lost")


def test_onwards_means_each_hit_from_there() -> None:
    failpoint.arm(failpoint.parse(f"{POINT}=error@2+"))
    failpoint.hit(POINT)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            failpoint.hit(POINT)


@pytest.mark.parametrize(("action", "status"), [("kill", -signal.SIGKILL), ("exit", 70)])
def test_a_kill_ends_the_process_without_a_word(action: str, status: int) -> None:
    code = (
        "import atexit; atexit.register(print, 'flushed')\n"
        "from plait import settings; from plait.domain import failpoint\n"
        "failpoint.arm(settings.failpoints())\n"
        f"failpoint.hit({POINT!r}); print('once', flush=True); failpoint.hit({POINT!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PLAIT_FAILPOINTS": f"{POINT}={action}@2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, "once\n")


@pytest.mark.parametrize(
    "text",
    [
        "no.such=kill",
        f"{POINT}",
        f"{POINT}=explode",
        f"{POINT}=kill@0",
        f"{POINT}=kill@x",
        f"{POINT}=sleep",
        f"{POINT}=sleep:99999",
        f"{POINT}=kill,{POINT}=exit",
        "=" * 5000,
    ],
)
def test_what_is_no_failpoint_is_refused(text: str) -> None:
    with pytest.raises(BadSettings, match="PLAIT_FAILPOINTS"):
        settings.failpoints({"PLAIT_FAILPOINTS": text})


def test_every_point_stands_somewhere_and_is_described() -> None:
    hits = {
        name
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for name in re.findall(r"failpoint\.hit\(\s*\"([^\"]+)\"", path.read_text())
    }
    assert hits == set(failpoint.POINTS)
    text = (ROOT / "docs/faults.md").read_text()
    assert not [name for name in failpoint.POINTS if f"`{name}`" not in text]
