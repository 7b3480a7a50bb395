"""What indexing a tree costs: CPU of Plait's own processes and of the servers, wall time, memory, rows.

    python benchmarks/index_cost.py PATH [--vectors] [--only-fresh] [--runs 3] [--json]

Works on a copy of PATH and in a PLAIT_HOME of its own, both removed at the end. Rows: `fresh` (empty
stores, servers started by the run), `unchanged`, `one file` (a function appended to one of the largest
Python files), and with --vectors `vectors`. CPU is user + system seconds. The servers' CPU is read
from the processes themselves while they linger after the run, so start-up, JIT compilation and
background work count. Peak memory is the sum over all processes at one moment, sampled five times a second
and split by process; each takes its share of a page that several map (PSS, from Linux's `smaps_rollup`), so
PostgreSQL's buffers count once.
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
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

LINGER_S = 8
SAMPLE_S = 0.2
KINDS = ("run", "workers", "postgres", "graph", "keeper")


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
    peak_by_kind: dict[str, float]
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
    """Samples the memory of a run, its workers and the servers of `home`, and keeps the largest sum."""

    def __init__(self, pid: int, home: Path) -> None:
        super().__init__(daemon=True)
        self._pid, self._home, self._over = pid, home, threading.Event()
        self._peak = dict.fromkeys(KINDS, 0.0)

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            now = self._sample()
            if sum(now.values()) > sum(self._peak.values()):
                self._peak = now

    def _sample(self) -> dict[str, float]:
        """MB by kind of process. One that ends meanwhile counts nothing."""
        total = dict.fromkeys(KINDS, 0.0)
        seen: set[int] = set()
        # A keeper is the parent of its server, so it comes last.
        roots = sorted(servers(self._home), key=lambda one: one[0] == "keeper")
        with suppress(psutil.NoSuchProcess):
            roots.append(("run", psutil.Process(self._pid)))
        for kind, root in roots:
            processes = [(kind, root)]
            with suppress(psutil.NoSuchProcess):
                below = "workers" if kind == "run" else kind
                processes += [(below, child) for child in root.children(recursive=True)]
            for of, process in processes:
                if process.pid not in seen:
                    seen.add(process.pid)
                    total[of] += share_of_memory(process.pid)
        return total

    def stop(self) -> dict[str, float]:
        self._over.set()
        self.join()
        return self._peak


def share_of_memory(pid: int) -> float:
    """MB of a process, a page that n processes map as an n-th of it; 0.0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (
        next((int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:"), 0) / 1024
    )


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
    memory = peak.stop()
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
        sum(memory.values()),
        memory,
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


def one_round(source: Path, vectors: bool, only_fresh: bool) -> list[Cost]:
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as scratch:
        tree, home = Path(scratch, "tree"), Path(scratch, "home")
        shutil.copytree(source, tree, symlinks=True)
        home.mkdir()
        Path(scratch).chmod(0o755)  # PostgreSQL's account passes through when root runs this
        costs = [measure("fresh", tree, home, "--no-embed")]
        if only_fresh:
            return costs
        costs.append(measure("unchanged", tree, home, "--no-embed"))
        touch_one(tree)
        costs.append(measure("one file", tree, home, "--no-embed"))
        if vectors:
            costs.append(measure("vectors", tree, home))
        return costs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("path", type=Path)
    arguments.add_argument("--vectors", action="store_true")
    arguments.add_argument("--only-fresh", action="store_true")
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--json", action="store_true")
    args = arguments.parse_args()
    rounds = [
        one_round(args.path, args.vectors and i == 0, args.only_fresh) for i in range(args.runs)
    ]
    by_name: dict[str, list[Cost]] = {}
    for costs in rounds:
        for cost in costs:
            by_name.setdefault(cost.name, []).append(cost)
    if args.json:
        print(json.dumps([asdict(c) | {"cpu_s": c.cpu_s} for costs in rounds for c in costs]))
        return
    print(
        "| run | CPU s (own + PostgreSQL + graph + keepers) | wall s"
        " | peak MB (run + workers + PostgreSQL + graph + keepers) | chunks | nodes | edges |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, costs in by_name.items():
        c = sorted(costs, key=lambda x: x.cpu_s)[len(costs) // 2]
        wall = statistics.median(x.wall_s for x in costs)
        parts = " + ".join(f"{c.peak_by_kind[kind]:.0f}" for kind in KINDS)
        print(
            f"| {name} | {c.cpu_s:.1f} ({c.own_cpu_s:.1f} + {c.postgres_cpu_s:.1f} + {c.graph_cpu_s:.1f}"
            f" + {c.keeper_cpu_s:.1f}) | {wall:.1f} | {c.peak_mb:.0f} ({parts}) | {c.chunks:,} | {c.nodes:,} | {c.edges:,} |"
        )


if __name__ == "__main__":
    main()
