"""Eight agents wired and unwired on a file system: what was there is there again, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from server.install import apply, files, machine, plan, record
from server.install.agents import AGENTS, Hook, Scope
from server.install.machine import Machine
from server.install.plan import NOTHING, Plan, Wanted
from server.install.refusal import Refused

# What users have: comments, tabs, CRLF, no last line end, empty files; and the traps among them.
THEIRS: dict[str, bytes] = {
    ".claude.json": b'{"numStartups": 3, "projects": {"/a": {"mcpServers": {}}}}',
    ".claude/settings.json": b'{\n\t"model": "x",\n\t"hooks": {\n\t\t"Stop": []\n\t}\n}\n',
    ".claude/CLAUDE.md": b"# Mine\r\n\r\n- be brief",
    ".codex/config.toml": b'model = "x" # fast\n\n[mcp_servers.docs]\ncommand = "npx"\n',
    ".codex/AGENTS.md": b"",
    ".cursor/mcp.json": b'{\r\n    "mcpServers": {}\r\n}\r\n',
    ".cursor/hooks.json": b'{\n  "version": 1\n}\n',
    ".config/Code/User/mcp.json": b'{\n\t"servers": {\n\t\t"x": {}, // mine\n\t},\n\t"inputs": []\n}',
    ".config/opencode/opencode.jsonc": b'// mine\n{\n  "$schema": "https://opencode.ai/config.json",\n}\n',
    ".gemini/settings.json": b"{}",
    ".gemini/GEMINI.md": b"\xef\xbb\xbf# Mine\n",
    ".codeium/windsurf/mcp_config.json": b"",
    ".config/zed/settings.json": b'// Zed\n{\n  "theme": "One",\n  "context_servers": {},\n}\n',
    "project/AGENTS.md": b"# Rules\n\nmine\n\n",
    "project/.mcp.json": b'{"mcpServers":{"a":{"command":"b"}}}\n',
    "project/.vscode/mcp.json": b"{ }",
    "project/.codex/config.toml": b"# nothing yet",
    "project/opencode.json": b'{"mcp": {}}',
}


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return Machine(machine.bases(tmp_path, {}, mac=False), tmp_path / "project")


def write(root: Path, contents: Mapping[str, bytes]) -> None:
    for name, data in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def tree(root: Path) -> dict[str, bytes | None]:
    """Every file's bytes and every folder (None) below `root`."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def install(
    here: Machine, home: Path, scope: Scope = Scope.USER, wanted: Wanted | None = None
) -> Plan:
    return apply.apply(plan.make(AGENTS, wanted or Wanted(), scope, here, "plait"), scope, home)


def uninstall(here: Machine, home: Path, scope: Scope = Scope.USER) -> Plan:
    return apply.apply(plan.make(AGENTS, NOTHING, scope, here, "plait"), scope, home)


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("contents", [{}, THEIRS], ids=["nothing there", "much there"])
def test_uninstall_leaves_every_byte_and_folder_as_it_was(
    tmp_path: Path, here: Machine, scope: Scope, contents: Mapping[str, bytes]
) -> None:
    write(tmp_path, contents)
    before = tree(tmp_path)
    done = install(here, tmp_path / "home", scope)
    assert done.problems == ()
    wired = {name for c in done.changes for name in c.agents if c.action != "unchanged"}
    assert wired == {agent.name for agent in AGENTS}
    after = tree(tmp_path)
    assert {c.action for c in install(here, tmp_path / "home", scope).changes} == {"unchanged"}
    assert tree(tmp_path) == after  # twice is as once
    assert uninstall(here, tmp_path / "home", scope).problems == ()
    assert tree(tmp_path) == before


def test_without_its_record_uninstall_leaves_empty_folders_alone(
    tmp_path: Path, here: Machine
) -> None:
    write(tmp_path, THEIRS)
    before = tree(tmp_path)
    install(here, tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    uninstall(here, tmp_path / "home")
    left = {name: data for name, data in tree(tmp_path).items() if name not in before}
    assert set(left.values()) <= {None}
    assert not any(name.endswith("skills/plait") for name in left)
    assert {n: d for n, d in tree(tmp_path).items() if n not in left} == before


def test_the_users_own_changes_stay(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, THEIRS)
    install(here, tmp_path / "home")
    notes, servers = tmp_path / ".claude/CLAUDE.md", tmp_path / ".config/Code/User/mcp.json"
    notes.write_bytes(notes.read_bytes() + b"- and kind\r\n")
    servers.write_bytes(servers.read_bytes().replace(b'"inputs": []', b'"inputs": [1]'))
    uninstall(here, tmp_path / "home")
    assert notes.read_bytes() == b"# Mine\r\n\r\n- be brief\r\n- and kind\r\n"
    assert servers.read_bytes() == THEIRS[".config/Code/User/mcp.json"].replace(b"[]", b"[1]")


def test_a_file_that_cannot_be_parsed_is_left_and_the_others_are_done(
    tmp_path: Path, here: Machine
) -> None:
    bad = {
        ".cursor/mcp.json": b'{\n"mcpServers": \n',
        ".codex/config.toml": b"a = \n",
        ".gemini/settings.json": b'{"x": "\xff"}',
        ".config/zed/settings.json": b"[]",
        ".claude/CLAUDE.md": b"<!-- plait:begin -->\n",
    }
    write(tmp_path, bad)
    done = install(here, tmp_path / "home")
    assert {(str(p.path.relative_to(tmp_path)), p.line) for p in done.problems} == {
        (".cursor/mcp.json", 3),
        (".codex/config.toml", 1),
        (".gemini/settings.json", 1),
        (".config/zed/settings.json", 1),
        (".claude/CLAUDE.md", 1),
    }
    assert {name: (tmp_path / name).read_bytes() for name in bad} == bad
    assert (tmp_path / ".claude.json").exists()
    assert (tmp_path / ".config/opencode/opencode.json").exists()


def test_another_server_of_our_name_is_not_overwritten(tmp_path: Path, here: Machine) -> None:
    theirs = b'{"mcpServers": {"plait": {"command": "braid", "args": ["mcp"]}}}'
    write(tmp_path, {".cursor/mcp.json": theirs})
    (problem,) = install(here, tmp_path / "home").problems
    assert "Plait did not write" in problem.text
    uninstall(here, tmp_path / "home")
    assert (tmp_path / ".cursor/mcp.json").read_bytes() == theirs


def test_links_stay_links_and_modes_stay(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, {"dotfiles/settings.json": b'{\n  "a": 1\n}\n', "dotfiles/new/keep": b""})
    (tmp_path / "dotfiles/settings.json").chmod(0o640)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").symlink_to("../dotfiles/settings.json")
    (tmp_path / ".claude/CLAUDE.md").symlink_to("../dotfiles/new/CLAUDE.md")
    install(here, tmp_path / "home")
    for name in ("settings.json", "CLAUDE.md"):
        assert (tmp_path / ".claude" / name).is_symlink()
        assert b"plait" in (tmp_path / ".claude" / name).read_bytes()
    assert (tmp_path / "dotfiles/settings.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / ".claude.json").stat().st_mode & 0o777 == 0o600
    uninstall(here, tmp_path / "home")
    assert (tmp_path / ".claude/settings.json").read_bytes() == b'{\n  "a": 1\n}\n'
    assert (tmp_path / "dotfiles/settings.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / ".claude/CLAUDE.md").is_symlink()
    assert not (tmp_path / "dotfiles/new/CLAUDE.md").exists()


def test_a_repositorys_link_out_of_it_is_not_followed(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, {".bashrc": b"export A=1\n", "elsewhere/x": b""})
    (here.project / "AGENTS.md").symlink_to("../.bashrc")
    (here.project / ".cursor").symlink_to("../elsewhere")
    (here.project / "CLAUDE.md").symlink_to("CLAUDE.md")
    done = install(here, tmp_path / "home", Scope.PROJECT)
    assert {p.path.name for p in done.problems} == {
        "AGENTS.md",
        "mcp.json",
        "hooks.json",
        "CLAUDE.md",
    }
    assert (tmp_path / ".bashrc").read_bytes() == b"export A=1\n"
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["x"]


def test_one_file_under_two_names_is_written_once(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, {"project/AGENTS.md": b"mine\n"})
    (here.project / "CLAUDE.md").symlink_to("AGENTS.md")
    install(here, tmp_path / "home", Scope.PROJECT)
    assert (here.project / "AGENTS.md").read_text().count("plait:begin") == 1
    uninstall(here, tmp_path / "home", Scope.PROJECT)
    assert (here.project / "AGENTS.md").read_bytes() == b"mine\n"


def test_read_only_files_and_odd_ones_are_named(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, {".cursor/mcp.json": b"{}", ".claude/settings.json/x": b""})
    (tmp_path / ".cursor/mcp.json").chmod(0o444)
    os.mkfifo(tmp_path / ".claude.json")
    done = install(here, tmp_path / "home")
    texts = {str(p.path.relative_to(tmp_path)): p.text for p in done.problems}
    assert "chmod u+w" in texts[".cursor/mcp.json"]
    assert texts[".claude.json"] == texts[".claude/settings.json"] == "it is no regular file"
    assert (tmp_path / ".cursor/mcp.json").read_bytes() == b"{}"


def test_a_file_that_changes_meanwhile_is_left_alone(tmp_path: Path, here: Machine) -> None:
    found = plan.make(AGENTS, Wanted(), Scope.USER, here, "plait")
    write(tmp_path, {".claude.json": b'{"new": 1}'})
    done = apply.apply(found, Scope.USER, tmp_path / "home")
    assert [p.text for p in done.problems] == [
        "another program changed it meanwhile; run the command again"
    ]
    assert (tmp_path / ".claude.json").read_bytes() == b'{"new": 1}'


def test_what_agents_share_stays_for_those_that_stay(tmp_path: Path, here: Machine) -> None:
    install(here, tmp_path / "home", Scope.PROJECT)
    codex, cursor = ([a] for a in AGENTS if a.name in ("codex", "cursor"))

    def leave(agents: list[object]) -> None:
        found = plan.make(agents, NOTHING, Scope.PROJECT, here, "plait")  # type: ignore[arg-type]
        apply.apply(found, Scope.PROJECT, tmp_path / "home")

    leave(codex)  # type: ignore[arg-type]
    assert not (here.project / ".codex").exists()
    assert (here.project / "AGENTS.md").exists()
    assert (here.project / ".agents/skills/plait/SKILL.md").exists()
    leave([a for a in AGENTS if a not in (*codex, *cursor)])
    assert (here.project / "AGENTS.md").exists()
    leave(cursor)  # type: ignore[arg-type]
    assert tree(here.project) == {".git": None}


def test_parts_are_switched_off_alone_and_later(tmp_path: Path, here: Machine) -> None:
    before = tree(tmp_path)
    install(here, tmp_path / "home")
    few = Wanted(instructions=False, skill=False, hooks=frozenset({Hook.AFTER_EDIT}))
    install(here, tmp_path / "home", wanted=few)
    texts = "".join(p.read_text() for p in tmp_path.rglob("*") if p.is_file())
    assert "plait:begin" not in texts
    assert "plait:skill" not in texts
    assert "session-start" not in texts
    assert texts.count("after-edit") == 4
    uninstall(here, tmp_path / "home")
    assert tree(tmp_path) == before


def test_a_plan_alone_writes_nothing_and_its_diff_is_a_patch(tmp_path: Path, here: Machine) -> None:
    write(tmp_path, THEIRS)
    before = tree(tmp_path)
    found = plan.make(AGENTS, Wanted(), Scope.USER, here, "plait")
    assert tree(tmp_path) == before
    (change,) = [c for c in found.changes if c.path.name == "config.toml"]
    assert change.diff() == (
        f"--- {change.path}\n+++ {change.path}\n@@ -2,3 +2,7 @@\n \n [mcp_servers.docs]\n"
        ' command = "npx"\n+\n+[mcp_servers.plait]\n+command = "plait"\n+args = ["mcp"]\n'
    )


# -- the machine ----------------------------------------------------------------------------------


def test_agents_are_found_by_folder_or_program(
    tmp_path: Path, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert here.found() == ()
    (tmp_path / ".cursor").mkdir()
    write(tmp_path, {"bin/zeditor": b""})
    (tmp_path / "bin/zeditor").chmod(0o755)
    assert [agent.name for agent in here.found()] == ["cursor", "zed"]


def test_the_clients_own_variables_and_macos_are_followed(tmp_path: Path) -> None:
    plain = machine.bases(tmp_path, {}, mac=False)
    assert plain["claude_json"] == str(tmp_path / ".claude.json")
    assert plain["vscode"] == str(tmp_path / ".config/Code")
    named = {
        "CLAUDE_CONFIG_DIR": Path("/c"),
        "CODEX_HOME": Path("/x"),
        "XDG_CONFIG_HOME": Path("/g"),
    }
    moved = machine.bases(tmp_path, named, mac=True)
    assert (moved["claude"], moved["claude_json"]) == ("/c", "/c/.claude.json")
    assert (moved["codex"], moved["opencode"]) == ("/x", "/g/opencode")
    assert moved["vscode"] == str(tmp_path / "Library/Application Support/Code")


def test_the_command_is_the_name_only_where_the_name_is_this_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"venv/bin/plait": b"#!/bin/sh\n", "other/plait": b"#!/bin/sh\n"})
    own, other = tmp_path / "venv/bin/plait", tmp_path / "other/plait"
    for script in (own, other):
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert machine.command([own]) == str(own)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/plait").symlink_to(own)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{other.parent}")
    assert machine.command([own]) == "plait"


def test_a_project_is_the_work_tree_around(tmp_path: Path, here: Machine) -> None:
    (here.project / "a/b").mkdir(parents=True)
    assert machine.project_root(here.project / "a/b") == here.project
    assert machine.project_root(tmp_path) == tmp_path


@pytest.mark.parametrize("text", ["", "[]", '{"folders": 3}', '{"folders": [3, "/x"]}'])
def test_a_broken_record_is_no_record(tmp_path: Path, text: str) -> None:
    write(tmp_path, {record.NAME: text.encode()})
    assert record.folders(tmp_path) in ([], [Path("/x")])


def test_writing_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a": b"old"})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device", "a")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        files.write(tmp_path / "a", "new", private=False)
    with pytest.raises(Refused, match="No space left"):
        files.write(tmp_path / "made/for/b", "new", private=False)
    assert tree(tmp_path) == {"a": b"old"}


def test_every_agent_has_what_its_scope_can_have() -> None:
    assert len(AGENTS) == 8
    for agent in AGENTS:
        assert agent.server.paths.user
        assert agent.server.paths.project or "no MCP file" in agent.notes[Scope.PROJECT]
        assert agent.instructions.user or "no instructions" in agent.notes[Scope.USER]
        json.dumps(agent.server.seed)
