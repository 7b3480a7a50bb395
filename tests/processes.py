"""Waiting for other processes: what was told to them needs a moment to arrive."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil

from plait.supervisor import process
from plait.supervisor.lease import wait_stopped

T = TypeVar("T")

# How fast a machine is, is no property of the code under test: what a person would not wait for, a test
# does. Half of the time that a hung test is given, so that it says itself what it waited for.
LIMIT_S = 300.0
PATIENT = {
    "PLAIT_SEARCH__TIMEOUT_S": "300",
    "PLAIT_SEARCH__GRAPH_WAIT_S": "300",
    "PLAIT_SEARCH__NAMES_WAIT_S": "300",
    "PLAIT_GRAPH__QUERY_TIMEOUT_S": "300",
    "PLAIT_GRAPH__CONNECT_TIMEOUT_S": "60",
    "PLAIT_POSTGRES__CONNECT_TIMEOUT_S": "60",
    "PLAIT_POSTGRES__STATEMENT_TIMEOUT_S": "300",
    "PLAIT_SERVER__TIMEOUT_S": "300",
    "PLAIT_SERVER__DRAIN_S": "60",
    "PLAIT_SERVER__FOLLOW_S": "300",
    "PLAIT_EMBEDDED__START_TIMEOUT_S": "300",
    # Tests edit folders and look at what an old index says of them; tests/e2e/test_follow.py says otherwise.
    "PLAIT_INDEX__FOLLOW_S": "0",
    # A command brings its own server, which ends with it; tests of the service say otherwise.
    "PLAIT_CLIENT__AUTOSTART": "false",
}


# Of these a command gives up by itself after some seconds.
_LIMITED = ("search", "recall", "graph")


def patient(*words: str) -> tuple[str, ...]:
    """The words of a `plait` command, which then waits as long as a test does."""
    return (*words, "--timeout", f"{LIMIT_S:g}") if words[:1] and words[0] in _LIMITED else words


def wait_until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Return once `condition()` holds. Raises: AssertionError, when it doesn't within `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"not within {limit_s:g} s"
        time.sleep(0.02)


async def eventually(condition: Callable[[], Awaitable[T | None]], limit_s: float = LIMIT_S) -> T:
    """The first true answer of `condition()`. Raises: AssertionError, when none comes within `limit_s`."""
    end = time.monotonic() + limit_s
    while True:
        if found := await condition():
            return found
        assert time.monotonic() < end, f"not within {limit_s:g} s"
        await asyncio.sleep(0.05)


def gone(pid: int, limit_s: float = LIMIT_S) -> bool:
    """Whether process `pid` ends within `limit_s`: until a signal has arrived, SIGKILL too, its process
    answers as alive."""
    end = time.monotonic() + limit_s
    while process.identify(pid) is not None:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def cpu_s(pid: int) -> float:
    """CPU seconds that process `pid` has used, those of its ended children too; infinite, once it is
    gone. How far a process has come, whatever else the machine has to do."""
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    except psutil.Error:
        return math.inf


def remove_home(base: Path, limit_s: float = LIMIT_S) -> None:
    """Wait until no server is kept anywhere under `base`, then remove it."""
    # `os.walk`, since servers that are stopping remove folders while we look, which `rglob` fails of.
    kept = [Path(folder) for folder, _, names in os.walk(base) if "keeper.lock" in names]
    for folder in kept:
        assert wait_stopped(folder, limit_s), f"{folder} is still kept"
    end = time.monotonic() + limit_s
    while True:
        try:
            shutil.rmtree(base)
            return
        except OSError:  # the last children of a killed server tidy up beside us
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
