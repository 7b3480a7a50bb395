"""The export: documented lines, whole files, clear errors."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etl.export import export_graph
from plait.domain.errors import ExportFailed
from plait.domain.graph import Edge, Node
from tests.processes import LIMIT_S

NODE = Node("r:m.f", "Function", "f", "m.f", "src/é.py", 3, 9, "python", "method")
EDGE = Edge("CALLS", "r:m.f", "r:m.g", (4, 4, 7), "import", 0.9)
Parts = list[tuple[list[Node], list[Edge]]]


def test_lines_have_the_documented_shape(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    parts: Parts = [([NODE], [EDGE, EDGE]), ([], []), ([NODE], [])]
    assert export_graph(file, parts) == {"nodes": 2, "edges": 2}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {
        "type": "node",
        "id": "r:m.f",
        "label": "Function",
        "name": "f",
        "qualified_name": "m.f",
        "path": "src/é.py",
        "start_line": 3,
        "end_line": 9,
        "language": "python",
    }
    assert rows[1] == {
        "type": "edge",
        "relation": "CALLS",
        "from": "r:m.f",
        "to": "r:m.g",
        "lines": [4, 4, 7],
        "resolver": "import",
        "confidence": 0.9,
    }
    assert [row["type"] for row in rows] == ["node", "edge", "edge", "node"]
    assert file.read_bytes().endswith(b"}\n")


def test_a_failed_export_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_text("before")

    def parts() -> Iterator[tuple[list[Node], list[Edge]]]:
        yield [NODE], [EDGE]
        assert file.read_text() == "before"
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        export_graph(file, parts())
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_link_stays_a_link_and_permissions_are_the_users(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    old = os.umask(0o027)
    try:
        export_graph(tmp_path / "link", [([NODE], [])])
    finally:
        os.umask(old)
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["missing/out.jsonl", ".", "x" * 300])
def test_a_target_that_cannot_be_written_is_told_with_a_fix(tmp_path: Path, name: str) -> None:
    with pytest.raises(ExportFailed, match=r"cannot write the graph .*; give `--export` a file"):
        export_graph(tmp_path / name, [([NODE], [])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told() -> None:
    with pytest.raises(ExportFailed, match="No space left"):
        export_graph("/dev/full", [([NODE], [EDGE])])


def test_a_reader_that_goes_away_is_told_once(tmp_path: Path) -> None:
    code = (
        "from etl.export import export_graph\n"
        "from plait.domain.errors import ExportFailed\n"
        "from plait.domain.graph import Node\n"
        "node = Node('r:a', 'File', 'a', 'a', 'a', 1, 1, 'text')\n"
        "try: export_graph('-', (([node] * 1000, []) for _ in range(1000)))\n"
        "except ExportFailed as exc: raise SystemExit(3)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=LIMIT_S) == 3
    assert errors == b""
