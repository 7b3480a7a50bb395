"""Every benchmark runs, in its smallest form: on toy trees, without a network, for its exit code and its output.

What a benchmark measures is not looked at here: a toy's figures mean nothing.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import polyglot_corpus
from tests.documents import ROOT
from tests.processes import LIMIT_S, PATIENT, remove_home

COMMANDS = ROOT / "benchmarks"
ISSUE = """\
=== click 8.1.7 src/click/core.py::Group.resolve_command
Unknown commands end in a traceback

`resolve_command` raises a bare LookupError.
"""
TREE = {
    "src/click/__init__.py": '"""A toy of a package."""\n\nfrom click.core import Context, Group\n',
    "src/click/core.py": '''\
"""Commands and groups of commands."""


class Context:
    """What a command runs in."""

    def invoke(self, command, *values):
        """Call a command with its values in this context."""
        return command.run(self, *values)


class Group:
    """A command that holds other commands."""

    def __init__(self, name):
        self.name = name
        self.commands = {}

    def add_command(self, command):
        """Register another command under its name."""
        self.commands[command.name] = command

    def resolve_command(self, name):
        """Find the command that a user has named, or fail."""
        if name not in self.commands:
            raise LookupError(describe(name))
        return self.commands[name]


def describe(name):
    """The message about a command that does not exist."""
    return f"no such command: {name}"
''',
    "tests/test_core.py": """\
from click.core import Context, Group, describe


class Echo:
    name = "echo"

    def run(self, context, *values):
        return values


def test_invoke():
    assert Context().invoke(Echo(), 1) == (1,)


def test_resolve_command():
    group = Group("top")
    group.add_command(Echo())
    assert group.resolve_command("echo").name == "echo"


def test_describe():
    assert "x" in describe("x")
""",
    "README.md": "# A toy\n\nGroups hold commands, and a context invokes them.\n",
}
# The next release: `describe` has another parameter, and who calls it follows.
LATER = {
    **TREE,
    "src/click/core.py": TREE["src/click/core.py"]
    .replace("def describe(name):", "def describe(name, hint=''):")
    .replace("no such command: {name}", "no such command: {name}{hint}")
    .replace("LookupError(describe(name))", "LookupError(describe(name, '!'))"),
}
GO = {
    "shop/cart.go": "package shop\n\n// Total adds the prices of all items in the cart together.\n"
    "func Total(prices []int) int {\n\tsum := 0\n\tfor _, p := range prices {\n\t\tsum += p\n\t}\n\treturn sum\n}\n",
    "shop/order.go": "// Package shop keeps orders and the carts that they are made of.\npackage shop\n\n"
    "// Ship sends an order to the address that its customer gave.\nfunc Ship(id int) bool { return id > 0 }\n",
}
QUERIES = [
    ("fail with a clear message for an unknown command", "resolve_command", "Group"),
    ("register commands under their own names", "add_command", "Group"),
]


@dataclass(frozen=True)
class World:
    """What the commands are given: `{name}` in their arguments is an attribute of this."""

    folder: Path
    home: Path

    @property
    def tree(self) -> Path:
        return self.cache / "sdists" / "click-8.1.7"

    @property
    def cache(self) -> Path:
        return self.folder / "plait-benchmarks"

    @property
    def eval(self) -> Path:
        return self.folder / "eval.jsonl"

    @property
    def trace(self) -> Path:
        return self.folder / "trace.json"

    @property
    def tests(self) -> Path:
        return self.folder / "tests.json"

    @property
    def out(self) -> Path:
        return self.folder / "out"


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    # Not pytest's own folder, which only its user may enter: root's PostgreSQL runs as another one.
    folder = Path(tempfile.mkdtemp(prefix="plait-test-benchmarks-"))
    folder.chmod(0o755)
    made = World(folder, folder / "home")
    for root in (made.cache, made.cache / "sdists"):
        write(root / "click-8.1.7", TREE)
        write(root / "click-8.1.8", LATER)
    for project in (*polyglot_corpus.PROJECTS, *polyglot_corpus.WHOLE):
        if project.language == "go" or project.name == "flask":
            write(made.cache / "polyglot" / project.key, GO)
    (folder / "issues.txt").write_text(ISSUE, encoding="utf-8")
    rows = [
        {"package": "click", "version": "8.1.7", "query": text, "files": ["src/click/core.py"],
         "functions": [f"src/click/core.py::{owner}.{name}"]}
        for text, name, owner in QUERIES
    ]  # fmt: skip
    made.eval.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _history(folder / "histories")
    traced = ["{tree}", "-q", "-p", "no:cacheprovider", "tests"]
    run(made, [f"{COMMANDS}/test_trace.py", "{tests}", *traced], in_tree=True)
    traced[1:1] = ["-m", "pytest"]
    run(made, [f"{COMMANDS}/call_trace.py", "{trace}", *traced], in_tree=True)
    run(made, ["-m", "etl.index_repo", "{tree}", "--export", "{folder}/graph.jsonl"])
    run(made, ["-m", "etl.index_repo", "{tree}"])
    yield made
    remove_home(made.home)
    shutil.rmtree(folder, ignore_errors=True)


def _history(folder: Path) -> None:
    """Two files that change together, ten times."""
    folder.mkdir()
    (folder / "README.md").write_text("| shop/cart | 10 | blind |\n", encoding="utf-8")
    commit = {"p": ["0"], "f": [["M", "cart.py", 1, 1], ["M", "order.py", 1, 1]]}
    with gzip.open(folder / "shop+cart.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps(commit) + "\n" for _ in range(10)))


def run(world: World, words: list[str], *, in_tree: bool = False) -> str:
    values = {
        name: getattr(world, name)
        for name in ("tree", "cache", "eval", "trace", "tests", "out", "folder")
    }
    command = [sys.executable, *[word.format(**values) for word in words]]
    environment = {
        **os.environ,
        **PATIENT,
        "PLAIT_HOME": str(world.home),
        "XDG_CACHE_HOME": str(world.folder),
        "PYTHONPATH": str(world.tree / "src") if in_tree else "",
        "PIP_NO_INDEX": "1",  # nothing is fetched
    }
    done = subprocess.run(
        command,
        cwd=world.tree if in_tree else ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


CACHE = "--cache {cache}"
# By module: its arguments in the smallest form, one string a call.
SMALLEST = {
    "against": ("run {tree} --rounds 1",),
    "ablation": (
        f"run {{eval}} --sets messages --rules exact --only click --most 2 --out {{out}} {CACHE}",
        "table --out {out}",
    ),
    "call_graph": ("{tree} {trace}",),
    "co_change": ("{folder}/histories",),
    "command_latency": (
        "{tree} --symbol click.core.describe --runs 1 --cold 1 --rest 1 --watch 1",
    ),
    "context_budget": (f"{{eval}} {CACHE} --budgets 300,4000",),
    "edit_advice": ("click 8.1.7 8.1.8",),
    "episode_batch": ("--batches 2",),
    "episode_load": ("--rate 5 --seconds 1",),
    "expansion_gain": (f"{{eval}} {CACHE} --each 2",),
    "feedback_rounds": ("--seeds 1 --rounds 3",),
    "first_answer": ("{tree} --runs 1 --rest 0 --no-embed",),
    "flat_memory": ("--calls 5 --warm 1 --only Search --json",),
    "freshness": ("click 8.1.7 8.1.8 --notes 4",),
    "graph_write": ("{folder}/graph.jsonl",),
    "hook_latency": ("{tree} --runs 2",),
    "index_cost": ("{tree} --runs 1",),
    "install_round_trip": ("--large 0.01",),
    "issue_texts": (f"--texts {{folder}}/issues.txt {CACHE}",),
    "localisation": (f"{{eval}} {CACHE}",),
    "lookup": (f"{{eval}} {CACHE} --each 2",),
    "mcp_cost": ("{tree} --calls 2",),
    "memory_batch": ("--batches 2",),
    "memory_cost": ("--neo4j= --batches 2 --rate 5 --seconds 1",),
    "memory_query": (f"{CACHE} --families made --histories 1",),
    "memory_recall": (f"{CACHE} --families made --histories 1 --only bm25",),
    "memory_scale": ("fill --memories 50", "embed --most 20", "bulk", "measure --queries 2"),
    "memory_silence": (f"{{eval}} {CACHE} --only click --histories 1",),
    "pipeline_cost": ("--repo click-8.1.7 --queries 2",),
    "polyglot": ("--language go --each 2",),
    "questions": ("--project flask",),
    "rebind": ("{tree} --rounds 3",),
    "relations_gain": (f"{{eval}} {CACHE}",),
    "retention_cost": ("--memories 400 --dim 8",),
    "retention_year": ("--sessions 2 --steps 3 --asked 2 --no-vectors",),
    "scale": ("fill {tree}/src --chunks 20", "measure --queries 2"),
    "search_latency": ("--repo click-8.1.7 --queries 2 --callers 1 2",),
    "secrets_found": ("{tree}",),
    "switches": ("--switches 2",),
    "tests_to_run": ("{tree} {tests}",),
    "tiers": (f"{{eval}} --texts {{folder}}/issues.txt {CACHE} --project flask",),
}
# Run by a test of their own; the two traces also by `world`, in the toy's own process.
ELSEWHERE = {
    "against_peer": "the peers' own Python, by hand",
    "call_trace": "the fixture `world`",
    "goldens": "tests/unit/test_goldens.py",
    "soak": "tests/e2e/test_faults.py",
    "static_table": "tests/unit/test_static_training.py",
    "test_trace": "the fixture `world`",
}


@pytest.mark.parametrize("name", sorted(SMALLEST))
def test_a_benchmark_runs(world: World, name: str) -> None:
    for words in SMALLEST[name]:
        assert run(world, ["-m", f"benchmarks.{name}", *words.split()]).strip(), "it prints nothing"


def test_every_benchmark_is_run() -> None:
    commands = {path.stem for path in COMMANDS.glob("*.py") if _is_command(path)}
    commands |= {path.parent.name for path in COMMANDS.glob("*/__main__.py")}
    assert commands == SMALLEST.keys() | ELSEWHERE.keys()


def _is_command(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(part, ast.If) and "__main__" in ast.dump(part.test) for part in tree.body)
