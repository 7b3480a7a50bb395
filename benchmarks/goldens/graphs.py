"""Dumps of call graphs, a case a file: its nodes, and the edges that leave them, in ascending order."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.goldens.cases import Cases
from benchmarks.goldens.corpus import GRAPHS, folder
from benchmarks.goldens.under_test import Checkout

NO_FILE = "(no file)"


def record(checkout: Checkout, cache: Path) -> dict[str, Cases]:
    """By tree the lines of `plait index --export`, which needs no store."""
    return {t.name: _dump(checkout, t.name, folder(t, cache)) for t in GRAPHS}


def _dump(checkout: Checkout, name: str, root: Path) -> Cases:
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch, "graph.jsonl")
        checkout.run("index", str(root), "--repo", name, "--export", str(target), home=scratch)
        lines = target.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    rows = [json.loads(line) for line in lines]
    files = {row["id"]: row["path"] for row in rows if row["type"] == "node"}
    cases: Cases = {}
    for row, line in zip(rows, lines, strict=True):
        path = row["path"] if row["type"] == "node" else files.get(row["from"], "")
        cases.setdefault(path or NO_FILE, []).append(line)
    return {path: sorted(cases[path]) for path in sorted(cases)}
