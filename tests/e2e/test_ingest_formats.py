"""`plait ingest` of transcripts, reports and patches into real stores: found again, and stored once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import LIMIT_S, patient

DATA = Path(__file__).parents[1] / "data" / "transcripts"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def plait(command_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    cwd = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: object, module: str = "server.cli") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", module, *patient(*map(str, arguments))],
            cwd=cwd,
            env=command_environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    return run


def told(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "note" not in line]  # of what is not ended, or cut short


def test_a_session_is_found_again_and_a_grown_one_stored_once(plait: Run, tmp_path: Path) -> None:
    session = tmp_path / "projects" / "session.jsonl"
    session.parent.mkdir()
    lines = (DATA / "claude_code.jsonl").read_bytes().splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if b"add a CLI" in line)
    session.write_bytes(b"".join(lines[:cut]))
    (first,) = told(plait("ingest", session.parent, "--repo", "importers", "--json"))
    assert not first["repeated"]
    session.write_bytes(b"".join(lines))
    again = told(plait("ingest", session.parent, "--repo", "importers", "--json"))
    assert [line["repeated"] for line in again] == [True, False, False]
    assert again[0]["episode_id"] == first["episode_id"]
    found = plait(
        "search",
        "discount added instead of subtracted",
        "--repo",
        "importers",
        "--in",
        "reflections",
    )
    assert "copied the tax formula" in found.stdout, found.stderr


def test_nothing_secret_reaches_the_stores(plait: Run, tmp_path: Path) -> None:
    told(plait("ingest", DATA / "claude_code.jsonl", "--repo", "secrets", "--json"))
    for collection in ("memories", "diffs", "plans"):
        found = plait(
            "search",
            "key demo curl Authorization",
            "--repo",
            "secrets",
            "--in",
            collection,
            "--json",
        )
        assert "hunter2xyz" not in found.stdout
        assert "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789" not in found.stdout
    found = plait("search", "add a CLI demo key", "--repo", "secrets", "--in", "memories", "--json")
    assert "[redacted:anthropic-key]" in found.stdout, found.stdout


def test_every_format_is_stored_by_both_commands(plait: Run, tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "all")
    (tmp_path / "all" / "report.xml").write_text(
        '<testsuite name="t"><testcase classname="tests.test_a" name="test_one" time="0.1"><failure>no'
        "</failure></testcase></testsuite>"
    )
    (tmp_path / "all" / "a.diff").write_text("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n")
    (tmp_path / "all" / "b.patch").write_text(
        f"From {'a' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nDate: Mon, 2 Mar 2026 10:00:00 +0100\n"
        "Subject: [PATCH] Fix #9\n\n---\ndiff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"
    )
    direct = told(
        plait(tmp_path / "all", "--repo", "formats", "--json", module="etl.ingest_episode")
    )
    assert {line["format"] for line in direct} == {
        "claude-code",
        "swe-agent",
        "junit",
        "diff",
        "patch",
    }
    assert not any(line["repeated"] for line in direct)
    served = told(plait("ingest", tmp_path / "all", "--repo", "formats", "--json"))
    assert all(line["repeated"] for line in served)
    assert [line["episode_id"] for line in served] == [line["episode_id"] for line in direct]
