"""`plait install` and `plait uninstall` as commands: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server import cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's empty home, a project, and no program on PATH."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAIT_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_without_an_agent_nothing_is_written(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["install"]) == 3
    assert "--agent: claude-code, codex" in capsys.readouterr().err
    assert files(home.parent) == set()


def test_an_unknown_agent_or_hook_is_wrong_usage(home: Path) -> None:
    for words in (["--agent", "emacs"], ["--no-hook", "before-lunch"], ["--user", "--project"]):
        with pytest.raises(SystemExit) as end:
            cli.main(["install", *words])
        assert end.value.code == 2


def test_a_dry_run_shows_diffs_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["install", "--agent", "codex", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"--- /dev/null\n+++ {home}/.codex/config.toml\n" in out
    assert "+[mcp_servers.plait]\n" in out
    assert files(home.parent) == set()


def test_what_is_found_is_wired_and_unwired(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").mkdir()
    assert cli.main(["install"]) == 0
    out, err = capsys.readouterr()
    assert f"created  {home}/.cursor/mcp.json  (cursor)" in out
    assert "note: Cursor keeps a user's rules in its settings" in err
    assert files(home) == {
        ".cursor/mcp.json",
        ".cursor/hooks.json",
        ".agents/skills/plait/SKILL.md",
    }
    assert cli.main(["install"]) == 0
    assert capsys.readouterr() == ("", "nothing to change\n" + err)
    assert cli.main(["uninstall"]) == 0
    assert files(home.parent) == set()
    assert [path.name for path in home.iterdir()] == [".cursor"]


def test_a_project_is_wired_from_inside_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = home.parent / "project"
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    words = ["--agent", "claude-code", "--project"]
    assert cli.main(["install", *words, "--no-hooks", "--no-skill"]) == 0
    assert files(project) == {".mcp.json", "CLAUDE.md"}
    assert files(home) == set()
    assert cli.main(["uninstall", *words]) == 0
    assert files(project) == set()


def test_a_broken_file_is_named_with_its_line_and_the_code_is_1(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude.json").write_text('{\n  "a": 1\n  "b": 2\n}\n')
    assert cli.main(["install", "--agent", "claude-code", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"error: {home}/.claude.json, line 3: this is not valid JSON")
    assert err.endswith("[FILE_LEFT_ALONE]\n")
    report = json.loads(out)
    assert report["left_alone"][0]["line"] == 3
    assert {file["action"] for file in report["files"]} == {"created"}
    assert (home / ".claude/settings.json").exists()
