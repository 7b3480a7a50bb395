"""Run inside a repository that holds every one of our names: none of its code may run.

`--export -` walks, parses in worker processes and binds, and needs no store.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import LIMIT_S

OURS = ["plait", "vector", "graph", "server", "configs", "tests", "proto", "benchmarks"]
# Beyond our own and our dependencies' names, these are imported by them or by our worker processes.
STANDARD = [
    "argparse", "array", "ast", "asyncio", "collections_abc", "concurrent", "contextlib", "ctypes",
    "dataclasses", "datetime", "email", "fnmatch", "hashlib", "http", "inspect", "json", "logging",
    "multiprocessing", "pickle", "platform", "queue", "random", "resource", "secrets", "selectors",
    "signal", "socket", "sqlite3", "ssl", "string", "struct", "subprocess", "tempfile", "threading",
    "typing", "unicodedata", "uuid", "zipfile",
]  # fmt: skip


def dependencies() -> set[str]:
    """Top-level names of every distribution installed here."""
    names = importlib.metadata.packages_distributions()
    return {name for name in names if name.isidentifier()} - {"etl", *OURS}


def hostile(root: Path, names: list[str]) -> Path:
    """A repository whose every module and package leaves a marker when it is imported."""
    for name in names:
        code = f"open({str(root / 'MARKER')!r}, 'a').write({name + chr(10)!r})\n"
        folder = root / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(code)
        for module in ("__main__", "index_repo", "worker", "cli", "settings", "domain", "ports"):
            (folder / f"{module}.py").write_text(code)
    (root / "sitecustomize.py").write_text(f"open({str(root / 'MARKER')!r}, 'a').write('site')\n")
    (root / "app.py").write_text(
        "def main():\n    return helper()\n\ndef helper():\n    return 1\n"
    )
    return root


NAMES = [*OURS, *STANDARD, *sorted(dependencies())]
PLAIT = [str(Path(sys.executable).with_name("plait")), "index"]
MODULE = [sys.executable, "-m", "etl.index_repo"]
SAFE_MODULE = [sys.executable, "-P", "-m", "etl.index_repo"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (PLAIT, [*NAMES, "etl"]),
        (MODULE, NAMES),  # a folder `etl/` would be what is asked for
        (SAFE_MODULE, [*NAMES, "etl"]),
    ],
    ids=["plait index", "python -m", "python -P -m"],
)
def test_no_code_of_the_repository_runs(
    tmp_path: Path, command: list[str], names: list[str]
) -> None:
    root = hostile(tmp_path / "hostile", names)
    done = subprocess.run(
        [*command, ".", "--export", "-"],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PLAIT_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    marker = root / "MARKER"
    assert not marker.exists(), marker.read_text()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    calls = {(row["from"], row["to"]) for row in rows if row.get("relation") == "CALLS"}
    assert ("hostile:app.main", "hostile:app.helper") in calls


def test_our_own_checkout_may_be_the_working_folder() -> None:
    """Without an installed `plait`, the checkout itself must stay on the path."""
    done = subprocess.run(
        [sys.executable, "-m", "etl.index_repo", "--help"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "usage: python -m etl.index_repo" in done.stdout


def test_no_other_distribution_owns_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in ("plait", "etl", "vector", "graph", "server"):
        assert set(owners.get(name, ["plait"])) == {"plait"}
