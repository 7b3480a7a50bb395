"""Plait beside codegraph, semble and LanceDB on the same trees, in the same rounds; ratios first.

    python -m benchmarks.against peers DIR                      install the peers once (npm, pip)
    python -m benchmarks.against run TREE [TREE …] --peers DIR [--rounds 3] [--write docs/benchmarks.md]

Each round runs every tool once on a fresh copy of each tree, in an empty home and a clean environment, so that a noisy
minute meets all of them. `index`: from nothing until the tool answers; `save`: a function is appended to one file and the
index brought up to date; `callers`: a command that prints who calls a function; `search`: a command that prints the best
ten for a sentence; `search, warm`: the same inside a process that holds the index (Plait: over gRPC). CPU is user and system
seconds of all processes that the tool started, servers included; Plait's background vectors are left out (`--no-embed`), as
codegraph has none.

semble downloads its model when it starts, which needs a network: give a model2vec folder by --semble-model; without one
a table of random vectors stands in, which costs the same and finds nothing, so that only semble's cost is shown.
LanceDB is a store, no indexer: it is given Plait's chunks with random vectors of 384 dimensions, and is asked hybrid
queries with its full-text index. What the tools find is not compared here: docs/call-graph.md and
docs/experiments/ do that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

from benchmarks.localisation_corpus import pieces
from plait.client import PlaitClient, discovery
from plait.domain.values import Filter

CODEGRAPH, SEMBLE, LANCEDB = "@colbymchenry/codegraph@1.6.1", "semble==0.7.0", "lancedb==0.40.0"
BEGIN, END = "<!-- against: made by benchmarks/against.py -->", "<!-- /against -->"
DRIVER = Path(__file__).with_name("against_peer.py")
SENTENCES = (
    "where is a request handled",
    "parse the configuration file",
    "raise an error for a wrong argument",
    "read all lines of a file",
    "compare two values",
    "convert a value to text",
)
ADDED = "\n\ndef added_by_the_benchmark(value):\n    return str(value)\n"
FUNCTION = re.compile(r"^\s*(?:async )?def (\w{4,})\(", re.MULTILINE)
NOTHING_FOUND = 3  # of `plait`: an answer, too
WARM = 3  # times that all sentences are asked before it counts


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds."""

    wall: float
    cpu: float


class Tool(Protocol):
    """One tool on one copy of a tree. A measure that it does not have is not in `run`'s answer."""

    @property
    def name(self) -> str: ...

    def run(self, tree: Path, home: Path) -> Mapping[str, Spent]: ...


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands with an environment of `home` alone, and counts what they and their servers spend."""

    home: Path
    more: Mapping[str, str] = field(default_factory=dict)

    def spend(self, *command: str | Path, cwd: Path, stdin: str = "") -> tuple[Spent, str]:
        """Raises: SystemExit: the command failed; what it said is in the message."""
        before, start = self._cpu(), time.perf_counter()
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=self._environment(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        wall = time.perf_counter() - start
        if done.returncode not in (0, NOTHING_FOUND):
            raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return Spent(wall, self._cpu() - before), done.stdout

    def _environment(self) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {"HOME": str(self.home), "PATH": path, "NO_COLOR": "1", **self.more}

    def _cpu(self) -> float:
        """Of ended children, and of servers that still run for this home."""
        mine = os.times()
        total = mine.children_user + mine.children_system
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                named = str(self.home) in " ".join(process.cmdline())
                if named or process.environ().get("HOME") == str(self.home):
                    t = process.cpu_times()
                    total += t.user + t.system + t.children_user + t.children_system
                    if "postgres" in process.name():  # its backends have titles of their own
                        total += sum(_own(child) for child in process.children(recursive=True))
        return total


def _own(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        t = process.cpu_times()
        return float(t.user + t.system)
    return 0.0


@dataclass(frozen=True, slots=True)
class Plait:
    """The `plait` beside this Python, with a service of its own home."""

    name: str = "Plait"

    def run(self, tree: Path, home: Path) -> Mapping[str, Spent]:
        shell = Shell(home, {"PLAIT_HOME": str(home / "plait")})
        plait = Path(sys.executable).with_name("plait")
        file, symbol = chosen(tree)
        try:
            index, _ = shell.spend(plait, "index", tree, "--no-embed", "--quiet", cwd=tree)
            found = {"index": index}
            found["callers"], _ = shell.spend(plait, "graph", "callers", symbol, cwd=tree)
            found["search"], _ = shell.spend(plait, "search", SENTENCES[0], cwd=tree)
            found["search, warm"] = self._warm(home, tree.name)
            with file.open("a", encoding="utf-8") as text:
                text.write(ADDED)
            found["save"], _ = shell.spend(plait, "index", tree, "--no-embed", "--quiet", cwd=tree)
            return found
        finally:
            shell.spend(plait, "stop", cwd=tree)

    def _warm(self, home: Path, repo: str) -> Spent:
        where = Filter(repos=(repo,))
        with PlaitClient(f"unix:{discovery.socket_path(home / 'plait')}") as client:
            return warm(lambda text: client.search(text, where=where))


@dataclass(frozen=True, slots=True)
class Codegraph:
    command: Path
    name: str = "codegraph"

    def run(self, tree: Path, home: Path) -> Mapping[str, Spent]:
        shell = Shell(home, {"CODEGRAPH_TELEMETRY": "0", "DO_NOT_TRACK": "1"})
        file, symbol = chosen(tree)
        found = {"index": shell.spend(self.command, "init", "--yes", tree, cwd=tree)[0]}
        name = symbol.rpartition(".")[2]
        found["callers"], _ = shell.spend(self.command, "callers", name, cwd=tree)
        found["search"], _ = shell.spend(self.command, "query", SENTENCES[0], cwd=tree)
        with file.open("a", encoding="utf-8") as text:
            text.write(ADDED)
        found["save"], _ = shell.spend(self.command, "sync", tree, cwd=tree)
        return found


@dataclass(frozen=True, slots=True)
class ByDriver:
    """semble or LanceDB, in a Python of their own that runs benchmarks/against_peer.py."""

    name: str
    python: Path
    model: str = ""

    def run(self, tree: Path, home: Path) -> Mapping[str, Spent]:
        shell = Shell(home, {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"})
        given: dict[str, Any] = {
            "tool": self.name,
            "tree": str(tree),
            "store": str(home / "store"),
            "model": self.model,
            "queries": SENTENCES,
            "rounds": WARM,
        }
        if self.name == "LanceDB":
            given["chunks"] = [[p.path, p.content] for p in pieces(tree)]
        _, out = shell.spend(self.python, DRIVER, cwd=tree, stdin=json.dumps(given))
        return {what: Spent(*times) for what, times in json.loads(out.splitlines()[-1]).items()}


def warm(ask: Callable[[str], object]) -> Spent:
    """The median of each sentence's time, asked in turn."""
    for _ in range(WARM):
        for text in SENTENCES:
            ask(text)
    took: list[float] = []
    cpu = time.process_time()
    for text in SENTENCES * WARM:
        start = time.perf_counter()
        ask(f"{text} {len(took)}")  # no answer is kept from before
        took.append(time.perf_counter() - start)
    return Spent(statistics.median(took), (time.process_time() - cpu) / len(took))


def chosen(tree: Path) -> tuple[Path, str]:
    """One of the larger files, and a function of it that is called, and whose name no other has."""
    files = sorted(tree.rglob("*.py"), key=lambda p: (p.stat().st_size, str(p)))
    texts = {file: file.read_text("utf-8", "replace") for file in files}
    of = {file: FUNCTION.findall(text) for file, text in texts.items()}
    count = Counter(name for names in of.values() for name in names)
    named = Counter(word for text in texts.values() for word in re.findall(r"(\w+)\(", text))
    for file in files[int(len(files) * 0.9) :: -1]:
        for name in of[file]:
            if count[name] == 1 and named[name] > 2:
                return file, name
    raise SystemExit(f"{tree} has no Python function with a name of its own; give a tree that does")


def install(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, CODEGRAPH], check=True)  # fmt: skip
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    subprocess.run([folder / "venv/bin/pip", "install", "-q", SEMBLE, LANCEDB], check=True)


def tools(peers: Path | None, semble_model: str) -> list[Tool]:
    """Raises: SystemExit: `peers` does not hold what `install` puts there."""
    found: list[Tool] = [Plait()]
    if peers is not None:
        codegraph, python = peers / "node_modules/.bin/codegraph", peers / "venv/bin/python"
        for path in (codegraph, python):
            if not path.exists():
                raise SystemExit(f"no {path}; run `python -m benchmarks.against peers {peers}`")
        found += [
            Codegraph(codegraph),
            ByDriver("semble", python, semble_model),
            ByDriver("LanceDB", python),
        ]
    return found


@contextlib.contextmanager
def fresh(source: Path) -> Iterator[tuple[Path, Path]]:
    """`(a copy of the tree, an empty home)`."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch)
        root.chmod(0o755)  # PostgreSQL's account passes through where root runs this
        tree, home = root / source.name, root / "home"
        shutil.copytree(source, tree, symlinks=True)
        home.mkdir()
        yield tree, home


Measured = Mapping[
    str, Mapping[str, Mapping[str, Sequence[Spent]]]
]  # tree → measure → tool → rounds


def measure(trees: Sequence[Path], running: Sequence[Tool], rounds: int) -> Measured:
    found: dict[str, dict[str, dict[str, list[Spent]]]] = {}
    for number in range(rounds):
        for source in trees:
            by_measure = found.setdefault(source.name, defaultdict(lambda: defaultdict(list)))
            # Whoever runs second may find files in the system's cache: the order turns.
            for tool in [*running[number % len(running) :], *running[: number % len(running)]]:
                with fresh(source) as (tree, home):
                    for what, spent in tool.run(tree, home).items():
                        by_measure[what][tool.name].append(spent)
                print(f"round {number + 1}: {source.name}, {tool.name}", file=sys.stderr)
    return found


def table(found: Measured, names: Sequence[str]) -> str:
    """Plait's medians; of each peer the factor by which it takes longer (above 1: Plait is faster), and its medians."""
    head = "| | Plait | " + " | ".join(f"{name} ÷ Plait" for name in names[1:]) + " |"
    lines = [head.replace(" |  |", " |"), "|---" * (len(names) + 1) + "|"]
    for tree, measures in found.items():
        for what in ("index", "save", "callers", "search", "search, warm"):
            if what not in measures:
                continue
            of = {
                name: _medians(measures[what][name]) for name in names if measures[what].get(name)
            }
            cells = [_said(of[names[0]])]
            cells += [_ratio(of[names[0]], of[name]) if name in of else "" for name in names[1:]]
            lines.append(f"| {tree}: {what} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _medians(rounds: Sequence[Spent]) -> Spent:
    return Spent(
        statistics.median(r.wall for r in rounds), statistics.median(r.cpu for r in rounds)
    )


def _said(spent: Spent) -> str:
    if spent.wall < 0.1:
        return f"{spent.wall * 1e3:.1f} ms"
    return f"{spent.cpu:.2f} CPU s, {spent.wall:.2f} s"


def _ratio(ours: Spent, theirs: Spent) -> str:
    if ours.wall < 0.1 or theirs.wall < 0.1:
        return f"**{theirs.wall / ours.wall:.2f}** ({_said(theirs)})"
    return (
        f"**{theirs.cpu / ours.cpu:.2f}** CPU, {theirs.wall / ours.wall:.2f} wall ({_said(theirs)})"
    )


def write(page: Path, text: str) -> None:
    """Put the table between the page's two marks. Raises: SystemExit: it has none."""
    old = page.read_text(encoding="utf-8")
    before, mark, rest = old.partition(BEGIN)
    _, closing, after = rest.partition(END)
    if not mark or not closing:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("peers").add_argument("folder", type=Path)
    runner = commands.add_parser("run")
    runner.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    runner.add_argument(
        "--peers", type=Path, help="where they were installed; without: Plait alone"
    )
    runner.add_argument("--semble-model", default="", help="a model2vec folder")
    runner.add_argument("--rounds", type=int, default=3)
    runner.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
    args = parser.parse_args()
    if args.command == "peers":
        install(args.folder.absolute())
        return
    running = tools(args.peers.absolute() if args.peers else None, args.semble_model)
    found = measure([tree.absolute() for tree in args.trees], running, args.rounds)
    text = table(found, [tool.name for tool in running])
    print(text)
    if args.write:
        write(args.write, text)


if __name__ == "__main__":
    main()
