"""How long each hook takes as a process beside a warm service, and how many tokens it says.

    python -m benchmarks.hook_latency FOLDER [--runs 40]

FOLDER: an unpacked sdist with Python sources, Flask's say. A service of its own indexes it, in a home that is
removed at the end. Each run is a session of its own, so that nothing is left out as known: an edit that adds
a parameter to a function of FOLDER, a search for the name of one, a start. Percentiles are of wall time in
milliseconds, from the start of the process to its end; CPU is the process's own. Rows without a service, and
of Python alone, say what of it is not the hook's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plait.client import PlaitClient, discovery
from plait.domain.scope import DEFAULT_TENANT
from plait.text import token_count as tokens
from tests.processes import remove_home, wait_until

DEFINED = re.compile(r"^[ ]*(?:async )?def ([a-z]\w{4,})\((.*)$", re.MULTILINE)
PLAIT = Path(sysconfig.get_path("scripts")) / "plait"


@dataclass(frozen=True, slots=True)
class Function:
    path: Path
    name: str
    line: str


@dataclass(frozen=True, slots=True)
class Run:
    wall_ms: float
    cpu_ms: float
    tokens: int


def main() -> None:
    out = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    out.add_argument("folder", type=Path)
    out.add_argument("--runs", type=int, default=40)
    args = out.parse_args()
    root = args.folder.resolve()
    found = list(functions(root))
    chosen = random.Random(0).sample(found, min(args.runs, len(found)))
    home = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PLAIT_HOME": str(home)}
    print(f"{'':24} {'p50':>6} {'p95':>6} {'CPU':>6}   said  tokens p50 / most")
    try:
        show("python -c pass", [timed([sys.executable, "-c", "pass"], b"", env) for _ in chosen])
        show("any hook, no service", hooks("before-search", chosen, env, root, searched))
        with service(home, root, env):
            for event, said in (
                ("session-start", started),
                ("after-edit", edited),
                ("before-search", searched),
            ):
                hooks(event, chosen[:5], env, root, said, warm="warm")
                show(event, hooks(event, chosen, env, root, said))
            show("session-end", hooks("session-end", chosen, env, root, ended))
    finally:
        remove_home(home)


def functions(root: Path) -> Iterator[Function]:
    """Functions with a parameter, of modules that are no tests."""
    for path in sorted(root.rglob("*.py")):
        if "test" not in str(path.relative_to(root)) and "docs" not in path.parts:
            for match in DEFINED.finditer(path.read_text(encoding="utf-8", errors="replace")):
                yield Function(path, match[1], match[0].strip())


@contextmanager
def service(home: Path, root: Path, env: Mapping[str, str]) -> Iterator[None]:
    """A `plait serve` that has indexed `root`, its tables and graph read."""
    serving = subprocess.Popen(
        [PLAIT, "serve"],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: discovery.running(home))
        address = discovery.running(home)
        assert address is not None
        with PlaitClient(address.target, tenant=DEFAULT_TENANT) as client:
            job = client.start_index(str(root), repository=root.name, embed=False)
            wait_until(lambda: client.get_index_job(job.id).final)
        time.sleep(12.0)  # the warmer looks every ten seconds
        yield
    finally:
        serving.terminate()
        serving.wait(60)


def hooks(
    event: str,
    chosen: Sequence[Function],
    env: Mapping[str, str],
    root: Path,
    said: Callable[[Function], dict[str, Any]],
    warm: str = "",
) -> list[Run]:
    runs = []
    for n, function in enumerate(chosen):
        payload = {"session_id": f"{warm}{event}{n}", "cwd": str(root), **said(function)}
        command = [str(PLAIT), "hook", event, "--agent", "claude-code"]
        runs.append(timed(command, json.dumps(payload).encode(), env))
    return runs


def started(function: Function) -> dict[str, Any]:
    return {"hook_event_name": "SessionStart", "source": "startup"}


def edited(function: Function) -> dict[str, Any]:
    new = function.line.replace("(", "(extra, ", 1)
    given = {"file_path": str(function.path), "old_string": function.line, "new_string": new}
    return {"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": given}


def searched(function: Function) -> dict[str, Any]:
    given = {"pattern": rf"\b{function.name}\b"}
    return {"hook_event_name": "PreToolUse", "tool_name": "Grep", "tool_input": given}


def ended(function: Function) -> dict[str, Any]:
    return {"hook_event_name": "SessionEnd", "transcript_path": "/nowhere.jsonl"}


def timed(command: Sequence[str], stdin: bytes, env: Mapping[str, str]) -> Run:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, input=stdin, env=env, capture_output=True, check=True)
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
    return Run(wall_s * 1e3, cpu_s * 1e3, tokens.count(text) if text else 0)


def show(name: str, runs: Sequence[Run]) -> None:
    walls, cpus = sorted(r.wall_ms for r in runs), sorted(r.cpu_ms for r in runs)
    said = sorted(r.tokens for r in runs if r.tokens)
    told = f"{at(said, 0.5):.0f} / {said[-1]}" if said else "–"
    print(
        f"{name:24} {at(walls, 0.5):6.0f} {at(walls, 0.95):6.0f} {at(cpus, 0.5):6.0f}   "
        f"{len(said)}/{len(runs)}  {told}"
    )


def at(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


if __name__ == "__main__":
    main()
