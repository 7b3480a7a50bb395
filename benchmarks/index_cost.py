"""What indexing a tree costs: CPU of Plait's own processes and of the servers, wall time, memory, rows.

    python benchmarks/index_cost.py PATH [--vectors] [--runs 3] [--json]

Works on a copy of PATH and in a PLAIT_HOME of its own, both removed at the end. Rows: `fresh` (empty
stores, servers started by the run), `unchanged`, `one file` (a function appended to one of the largest
Python files), and with --vectors `vectors`. CPU is user + system seconds. The servers' CPU is read
from the processes themselves while they linger after the run, so start-up, JIT compilation and
background work count. Peak memory is the sum over all processes, sampled ten times a second; shared
pages count once a process, so it overstates PostgreSQL.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

LINGER_S = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """One run. CPU and wall in seconds, memory in MB."""

    name: str
    wall_s: float
    own_cpu_s: float
    postgres_cpu_s: float
    graph_cpu_s: float
    keeper_cpu_s: float
    peak_mb: float
    chunks: int
    nodes: int
    edges: int

    @property
    def cpu_s(self) -> float:
        return self.own_cpu_s + self.postgres_cpu_s + self.graph_cpu_s + self.keeper_cpu_s


def servers(home: Path) -> Iterator[tuple[str, psutil.Process]]:
    """The keepers and servers of `home`, by what they are."""
    for process in psutil.process_iter(["cmdline", "name"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(home) not in line:
            continue
        if "plait.supervisor" in line:
            yield "keeper", process
        elif "java" in (process.info["name"] or ""):
            yield "graph", process
        elif "postgres" in line:
            yield "postgres", process


def cpu(process: psutil.Process) -> float:
    """CPU of a process and of its children that have ended."""
    t = process.cpu_times()
    return t.user + t.system + t.children_user + t.children_system


def server_cpu(home: Path) -> dict[str, float]:
    total = {"keeper": 0.0, "graph": 0.0, "postgres": 0.0}
    for kind, process in servers(home):
        try:
            total[kind] += cpu(process)
            if kind == "postgres":
                total[kind] += sum(cpu(child) for child in process.children(recursive=True))
        except psutil.NoSuchProcess:
            continue
    return total


class Peak(threading.Thread):
    """Samples the resident memory of a process tree and of the servers of `home`."""

    def __init__(self, pid: int, home: Path) -> None:
        super().__init__(daemon=True)
        self._pid, self._home, self._over = pid, home, threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, self._sample())

    def _sample(self) -> int:
        total = 0
        seen: set[int] = set()
        try:
            roots = [psutil.Process(self._pid), *(p for _, p in servers(self._home))]
            for root in roots:
                for process in [root, *root.children(recursive=True)]:
                    if process.pid not in seen:
                        seen.add(process.pid)
                        total += process.memory_info().rss
        except psutil.Error:
            return total
        return total

    def stop(self) -> float:
        self._over.set()
        self.join()
        return self.peak / 2**20


def measure(name: str, tree: Path, home: Path, *flags: str) -> Cost:
    """Run `plait index` once and wait until its servers are gone."""
    env = {**os.environ, "PLAIT_HOME": str(home), "PLAIT_EMBEDDED__LINGER_S": str(LINGER_S)}
    env["PLAIT_CLIENT__AUTOSTART"] = "false"  # what is measured is one process, not the service
    command = [sys.executable, "-P", "-m", "etl.index_repo", str(tree), "--repo", "bench", "--json"]
    before = os.times()
    start = time.perf_counter()
    process = subprocess.Popen([*command, *flags], env=env, stdout=subprocess.PIPE)
    peak = Peak(process.pid, home)
    peak.start()
    out, _ = process.communicate()
    wall = time.perf_counter() - start
    after = os.times()
    of_servers = server_cpu(home)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    report = json.loads(out)
    wait_until_stopped(home)
    own = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    return Cost(
        name,
        wall,
        own,
        of_servers["postgres"],
        of_servers["graph"],
        of_servers["keeper"],
        peak.stop(),
        report["chunks"],
        report.get("nodes", 0),
        sum(report.get("edges", {}).values()),
    )


def wait_until_stopped(home: Path) -> None:
    while any(servers(home)):
        time.sleep(0.2)


def touch_one(tree: Path) -> None:
    """Append a function to one of the larger Python files."""
    files = sorted(tree.rglob("*.py"), key=lambda p: (p.stat().st_size, str(p)))
    victim = files[int(len(files) * 0.9)]
    with victim.open("a") as file:
        file.write("\n\ndef added_by_the_benchmark(value):\n    return str(value)\n")


def one_round(source: Path, vectors: bool) -> list[Cost]:
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as scratch:
        tree, home = Path(scratch, "tree"), Path(scratch, "home")
        shutil.copytree(source, tree, symlinks=True)
        home.mkdir()
        Path(scratch).chmod(0o755)  # PostgreSQL's account passes through when root runs this
        costs = [
            measure("fresh", tree, home, "--no-embed"),
            measure("unchanged", tree, home, "--no-embed"),
        ]
        touch_one(tree)
        costs.append(measure("one file", tree, home, "--no-embed"))
        if vectors:
            costs.append(measure("vectors", tree, home))
        return costs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("path", type=Path)
    arguments.add_argument("--vectors", action="store_true")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--json", action="store_true")
    args = arguments.parse_args()
    rounds = [one_round(args.path, args.vectors and i == 0) for i in range(args.runs)]
    by_name: dict[str, list[Cost]] = {}
    for costs in rounds:
        for cost in costs:
            by_name.setdefault(cost.name, []).append(cost)
    if args.json:
        print(json.dumps([asdict(c) | {"cpu_s": c.cpu_s} for costs in rounds for c in costs]))
        return
    print(
        "| run | CPU s (own + PostgreSQL + graph + keepers) | wall s | peak MB | chunks | nodes | edges |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, costs in by_name.items():
        c = sorted(costs, key=lambda x: x.cpu_s)[len(costs) // 2]
        wall = statistics.median(x.wall_s for x in costs)
        print(
            f"| {name} | {c.cpu_s:.1f} ({c.own_cpu_s:.1f} + {c.postgres_cpu_s:.1f} + {c.graph_cpu_s:.1f}"
            f" + {c.keeper_cpu_s:.1f}) | {wall:.1f} | {c.peak_mb:.0f} | {c.chunks:,} | {c.nodes:,} | {c.edges:,} |"
        )


if __name__ == "__main__":
    main()
