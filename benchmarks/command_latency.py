"""What a command costs as a process: cold (no service runs) and warm, and what the service holds at rest.

    python -m benchmarks.command_latency ~/src/flask
    python -m benchmarks.command_latency ~/src/flask --plait /other/venv/bin/plait --serve

`--plait` measures another installation; `--serve` starts its `plait serve` first, for one from before commands
started a service of their own. A fresh PLAIT_HOME, which is removed at the end. Wall times of a busy machine
mean little: user + system CPU of the command stands beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

COMMANDS: dict[str, tuple[str, ...]] = {
    "search": ("search", "where are errors handled"),
    "recall": ("recall", "an error is swallowed, where are errors handled"),
    "graph callers": ("graph", "callers", "{symbol}"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Bench:
    plait: tuple[str, ...]
    home: Path
    root: Path

    def run(self, *words: str) -> Run:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            [*self.plait, *words], cwd=self.root, env=self._env(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Run(wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """`plait serve` of the installation, for the length of the block."""
        server = subprocess.Popen(
            [*self.plait, "serve", "--json"], env=self._env(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert server.stdout is not None
        server.stdout.readline()
        try:
            yield
        finally:
            server.terminate()
            server.communicate()

    def _env(self) -> dict[str, str]:
        return {**os.environ, "PLAIT_HOME": str(self.home)}


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    home = Path(tempfile.mkdtemp(prefix="plait-bench-"))
    home.chmod(0o711)
    bench = Bench(tuple(args.plait.split()), home, args.path.resolve())
    try:
        bench.run("index", ".", "--repo", "bench")
        commands = {
            name: tuple(word.format(symbol=args.symbol) for word in words)
            for name, words in COMMANDS.items()
        }
        for name, words in commands.items():
            if not args.serve:
                _tell(f"{name}, cold", [_cold(bench, words) for _ in range(args.cold)])
        with bench.serving() if args.serve else contextlib.nullcontext():
            for name, words in commands.items():
                bench.run(*words)
                _tell(f"{name}, warm", [bench.run(*words) for _ in range(args.runs)])
            _memory(home, "after use")
            time.sleep(args.rest)
            _memory(home, f"after {args.rest} s without a call")
            _idle_cpu(home, args.watch)
    finally:
        bench.run("stop")
        shutil.rmtree(home, ignore_errors=True)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    out = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else "")
    out.add_argument("path", type=Path, help="a repository")
    out.add_argument("--symbol", default="flask.app.Flask.handle_exception")
    out.add_argument("--plait", default=str(Path(sys.executable).with_name("plait")))
    out.add_argument("--serve", action="store_true", help="start `plait serve` first")
    out.add_argument("--runs", type=int, default=20)
    out.add_argument("--cold", type=int, default=3)
    out.add_argument("--rest", type=int, default=130, help="seconds before the memory at rest")
    out.add_argument("--watch", type=int, default=30, help="seconds over which idle CPU is taken")
    return out.parse_args(argv)


def _cold(bench: Bench, words: tuple[str, ...]) -> Run:
    bench.run("stop")
    return bench.run(*words)


def _tell(name: str, runs: Sequence[Run]) -> None:
    walls = sorted(run.wall for run in runs)
    p95 = walls[min(len(walls) - 1, round(0.95 * (len(walls) - 1)))]
    cpu = statistics.median(run.cpu for run in runs)
    print(
        f"{name:<22} wall {statistics.median(walls):5.2f} s (p95 {p95:.2f})  CPU {cpu:.2f} s",
        flush=True,
    )


def _processes(home: Path) -> list[psutil.Process]:
    """All that names the home on its command line or in its environment, with its children."""
    found: dict[int, psutil.Process] = {}
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            named = str(home) in " ".join(one.cmdline()) or one.environ().get("PLAIT_HOME") == str(
                home
            )
            if named and one.pid != os.getpid():
                found |= {p.pid: p for p in (one, *one.children(recursive=True))}
    return list(found.values())


def _memory(home: Path, when: str) -> None:
    total = 0
    for one in _processes(home):
        with contextlib.suppress(psutil.Error):
            memory = one.memory_full_info()
            total += int(getattr(memory, "pss", memory.uss))
    print(f"memory {when}: {total / 2**20:.0f} MB proportional, {len(_processes(home))} processes")


def _idle_cpu(home: Path, seconds: int) -> None:
    def used() -> float:
        total = 0.0
        for one in _processes(home):
            with contextlib.suppress(psutil.Error):
                total += sum(one.cpu_times()[:2])
        return total

    before = used()
    time.sleep(seconds)
    print(f"idle CPU over {seconds} s: {(used() - before) / seconds:.2%} of one core")


if __name__ == "__main__":
    main()
