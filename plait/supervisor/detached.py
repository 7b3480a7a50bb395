"""Processes that outlive who starts them: in a session of their own, with a log in place of a terminal."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.supervisor.files import open_log, trim

LOG_BYTES = 2**20


def start(
    entry: str,
    folder: Path,
    fd: int,
    config: Mapping[str, Any],
    *,
    log: Path,
    env: Mapping[str, str],
    also: Sequence[int] = (),
) -> int:
    """Run `entry` (`module:function`, called with the folder, `config` and `fd`) behind us; returns as soon
    as it is on its own, with the status of what started it. `config` must be JSON; `fd` is handed down, and what
    else is to stay open.

    Raises: OSError.
    """
    trim(log, LOG_BYTES)
    with open_log(log) as output:
        done = subprocess.run(
            [
                sys.executable,
                "-P",
                str(Path(__file__).with_name("boot.py")),
                entry,
                str(folder),
                str(fd),
            ],
            input=json.dumps({**config, "packages": _packages()}).encode(),
            stdout=output,
            stderr=output,
            env=dict(env),
            cwd=folder,
            pass_fds=(fd, *also),
            start_new_session=True,
            check=False,
        )
    return done.returncode


def _packages() -> str:
    """Where our dependencies are, for a process that has not our `PYTHONPATH` and cannot find them."""
    spec = importlib.util.find_spec("psutil")
    return str(Path(spec.origin).parents[1]) if spec is not None and spec.origin else ""
