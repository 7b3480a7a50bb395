"""The first answer on a machine that has none of Plait's data: `plait index`, then a search, a second run and Cypher.

    python -m benchmarks.first_answer ~/src/flask
    python -m benchmarks.first_answer ~/src/flask --plait /other/venv/bin/plait --runs 3

A fresh PLAIT_HOME each round. Of each command the wall time, and the CPU (user + system) of all processes of the
home until it returned: of the command, its children, the service, PostgreSQL and the graph server. The last lines
say what the home holds at rest: memory (proportional where the kernel tells it), and PostgreSQL's log on the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

REPO = "bench"
QUESTION = "where are errors handled"
CYPHER = "MATCH (f:Function) RETURN count(DISTINCT f)"


class Home:
    """A fresh PLAIT_HOME and the commands that use it."""

    def __init__(self, plait: Sequence[str], folder: Path, rest_s: float) -> None:
        self._plait = plait
        self.folder = folder
        self._environ = {
            **os.environ,
            "PLAIT_HOME": str(folder),
            "PLAIT_CLIENT__AUTOSTART": "true",
            "PLAIT_SERVER__REST_S": str(rest_s),
        }
        self._known: dict[int, float] = {}

    def run(self, *words: str) -> tuple[float, float]:
        """Wall and CPU seconds. Raises: SystemExit, when the command fails."""
        children, others, start = _children_s(), self._others_s(), time.perf_counter()
        done = subprocess.run(
            [*self._plait, *words], env=self._environ, capture_output=True, text=True, check=False
        )
        wall = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(f"{words[0]}: {done.stderr}")
        return wall, _children_s() - children + self._others_s() - others

    def processes(self) -> Iterator[psutil.Process]:
        seen = set()
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if str(self.folder) in " ".join(one.cmdline()):
                    for each in (one, *one.children(recursive=True)):
                        if each.pid not in seen and each.pid != os.getpid():
                            seen.add(each.pid)
                            yield each

    def _others_s(self) -> float:
        """CPU of all that ever ran here besides our own children; of what ended, as last seen."""
        for one in self.processes():
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                self._known[one.pid] = sum(times[:4])
        return sum(self._known.values())

    def memory_mb(self) -> float:
        total = 0
        for one in self.processes():
            with contextlib.suppress(psutil.Error):
                memory = one.memory_full_info()
                total += getattr(memory, "pss", memory.uss)
        return total / 1e6

    def log_mb(self) -> float:
        files = (self.folder / "postgres" / "data" / "pg_wal").glob("*")
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def round_of(
    plait: Sequence[str], root: Path, rest_s: float, options: Sequence[str], waiting: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """By step: wall and CPU seconds; at rest: memory and log, in MB."""
    folder = Path(tempfile.mkdtemp(prefix="plait-first-", dir="/tmp"))
    folder.chmod(0o711)  # the account that PostgreSQL runs as must get through
    home = Home(plait, folder / "home", rest_s)
    steps = {
        "first index": ("index", str(root), "--repo", REPO, *options),
        "first search": ("search", QUESTION, "--repo", REPO),
        "search again": ("search", QUESTION, "--repo", REPO),
        "nothing changed": ("index", str(root), "--repo", REPO, *options),
        "until all vectors are there": ("index", str(root), "--repo", REPO, *waiting),
        "stop": ("stop",),
        "search, no service": ("search", QUESTION, "--repo", REPO),
        "first Cypher": ("graph", "--cypher", CYPHER, "--repo", REPO),
    }
    out = {}
    try:
        for name, words in steps.items():
            out[name] = home.run(*words)
            if name == "search, no service" and rest_s:
                time.sleep(4 * rest_s)
                out["at rest: MB of memory, of log"] = home.memory_mb(), home.log_mb()
        home.run("stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return out


def main(argv: Sequence[str] | None = None) -> int:
    out = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    out.add_argument("root", type=Path, help="the repository's folder")
    out.add_argument("--plait", default="", help="another installation's `plait`")
    out.add_argument("--runs", type=int, default=2)
    out.add_argument(
        "--rest", type=float, default=4.0, help="`server.rest_s`; 0: memory is not measured"
    )
    out.add_argument("--no-embed", action="store_true", help="as of `plait index`")
    args = out.parse_args(argv)
    plait = [args.plait] if args.plait else [sys.executable, "-P", "-m", "server.cli"]
    options = ["--no-embed"] if args.no_embed else []
    # An older installation's run always waits.
    waiting = options or ([] if args.plait else ["--wait"])
    root = args.root.absolute()
    rounds = [round_of(plait, root, args.rest, options, waiting) for _ in range(args.runs)]
    print(f"| {'step':<30} | {'wall s / CPU s, by round':<40} |\n|---|---|")
    for step in rounds[0]:
        cells = ", ".join(f"{one[step][0]:.2f} / {one[step][1]:.2f}" for one in rounds)
        print(f"| {step:<30} | {cells:<40} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
