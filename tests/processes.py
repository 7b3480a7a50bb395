"""Waiting for other processes: what was told to them needs a moment to arrive."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from plait.supervisor import process
from plait.supervisor.lease import wait_stopped


def wait_until(condition: Callable[[], object], limit_s: float = 60.0) -> None:
    """Return once `condition()` holds. Raises: AssertionError, when it doesn't within `limit_s`."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"not within {limit_s:g} s"
        time.sleep(0.02)


def gone(pid: int, limit_s: float = 60.0) -> bool:
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


def remove_home(base: Path, limit_s: float = 120.0) -> None:
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
