"""What each agent's hook JSON says, and how each takes an answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.settings import load
from server.hooks.agents import AGENTS, Event, agent_of
from server.hooks.answer import answer
from server.hooks.edits import applied, edits
from server.hooks.payload import Payload, read
from server.hooks.searches import search

SOURCE = "import os\n\n\ndef area(width, height):\n    if width < 0:\n        raise ValueError\n    return width * height\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shapes.py").write_text(SOURCE)
    return tmp_path


def payload(folder: Path, **more: Any) -> Payload:
    said = {"session_id": "s1", "cwd": str(folder), "hook_event_name": "PostToolUse", **more}
    return read(json.dumps(said).encode())


# -- reading ----------------------------------------------------------------------------------------------


def test_claude_code_says_session_folder_tool_and_transcript() -> None:
    raw = {
        "session_id": "abc", "transcript_path": "/home/u/.claude/projects/p/abc.jsonl", "cwd": "/src/app",
        "permission_mode": "default", "hook_event_name": "SessionStart", "source": "startup",
    }  # fmt: skip
    found = read(json.dumps(raw).encode())
    assert (found.session, found.folder, found.native) == ("abc", "/src/app", "SessionStart")
    assert found.transcript.endswith("abc.jsonl")


def test_cursor_says_conversation_and_workspace() -> None:
    raw = {
        "conversation_id": "c9", "generation_id": "g", "hook_event_name": "postToolUse",
        "workspace_roots": ["/src/app"], "tool_name": "Write", "tool_input": '{"file_path": "a.py"}',
    }  # fmt: skip
    found = read(json.dumps(raw).encode())
    assert (found.session, found.folder, found.given) == ("c9", "/src/app", {"file_path": "a.py"})


@given(st.binary(max_size=200))
def test_bytes_are_never_an_error(raw: bytes) -> None:
    assert isinstance(read(raw), Payload)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_KEYS = (
    "session_id", "cwd", "tool_name", "tool_input", "tool_response", "hook_event_name", "transcript_path",
    "workspace_roots",
)  # fmt: skip
_GIVEN = ("file_path", "old_string", "new_string", "edits", "command", "pattern", "path", "content")


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(_KEYS, _JSON)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(_GIVEN, _JSON)),
)
def test_values_of_any_type_are_never_an_error(tree: dict[str, Any], tool: dict[str, Any]) -> None:
    for one in (tree, {**tree, "cwd": "/nowhere", "tool_input": tool}):
        found = read(json.dumps(one).encode())
        for edit in edits(found):
            assert edit.path.startswith("/")
            assert edit.hunks.startswith("@@")
        search(found)


def test_deep_and_large_json_is_nothing() -> None:
    assert read(b"[" * 100_000) == Payload()
    assert read(b'{"session_id": "' + b"x" * (17 * 2**20) + b'"}') == Payload()
    assert read(json.dumps({"cwd": "relative", "session_id": "\ud800"}).encode()) == Payload()


# -- edits ------------------------------------------------------------------------------------------------


def test_an_edit_in_the_middle_of_a_line_is_widened_to_whole_lines(folder: Path) -> None:
    (folder / "shapes.py").write_text(SOURCE.replace("height):", "height, depth):"))
    given = {"file_path": "shapes.py", "old_string": "height):", "new_string": "height, depth):"}
    (edit,) = edits(payload(folder, tool_name="Edit", tool_input=given))
    assert edit.path == str(folder / "shapes.py")
    assert "-def area(width, height):" in edit.hunks.split("\n")
    assert "+def area(width, height, depth):" in edit.hunks.split("\n")


def test_the_hunks_of_the_result_are_taken(folder: Path) -> None:
    patch = [{"oldStart": 4, "oldLines": 1, "newStart": 4, "newLines": 1, "lines": ["-a", "+b"]}]
    given = {"file_path": str(folder / "shapes.py"), "content": "b\n"}
    said = payload(
        folder, tool_name="Write", tool_input=given, tool_response={"structuredPatch": patch}
    )
    (edit,) = edits(said)
    assert edit.hunks == "@@ -4,1 +4,1 @@\n-a\n+b"


def test_gemini_shows_a_diff_of_the_file(folder: Path) -> None:
    diff = "Index: shapes.py\n===\n--- shapes.py\tCurrent\n+++ shapes.py\tProposed\n@@ -1,1 +1,1 @@\n-a\n+b\n"
    said = payload(
        folder,
        tool_name="write_file",
        tool_input={"file_path": str(folder / "shapes.py"), "content": "b"},
        tool_response={"returnDisplay": {"fileDiff": diff}},
    )
    assert [edit.hunks for edit in edits(said)] == ["@@ -1,1 +1,1 @@\n-a\n+b\n"]


def test_a_new_file_is_no_edit(folder: Path) -> None:
    given = {"file_path": str(folder / "new.py"), "content": "x = 1\n"}
    said = payload(
        folder,
        tool_name="Write",
        tool_input=given,
        tool_response={"type": "create", "structuredPatch": []},
    )
    assert edits(said) == []


def test_codex_patches_are_read_by_file(folder: Path) -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+x = 1\n*** Update File: shapes.py\n@@ def area\n"
        "-def area(width, height):\n+def area(width):\n     if width < 0:\n*** Update File: b.py\n@@\n-a\n+b\n"
        "*** Delete File: c.py\n*** End Patch\n"
    )
    found = edits(payload(folder, tool_name="apply_patch", tool_input={"command": patch}))
    assert [edit.path for edit in found] == [str(folder / "shapes.py"), str(folder / "b.py")]
    assert found[0].hunks.split("\n")[0] == "@@ -1,2 +1,2 @@"
    assert list(applied(patch))[1] == ("b.py", "@@ -1,1 +1,1 @@\n-a\n+b")


def test_a_pipe_in_place_of_the_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    given = {"file_path": "pipe.py", "old_string": "a\n", "new_string": "b\n"}
    (edit,) = edits(payload(folder, tool_name="Edit", tool_input=given))
    assert edit.hunks.endswith("-a\n+b")


# -- answering --------------------------------------------------------------------------------------------


def test_claude_code_and_codex_take_additional_context() -> None:
    for name in ("claude-code", "codex"):
        said = AGENTS[name].answer(Event.AFTER_EDIT, "PostToolUse", "text")
        output = {"hookEventName": "PostToolUse", "additionalContext": "text"}
        assert json.loads(said) == {"hookSpecificOutput": output}


def test_cursor_takes_it_flat_and_gemini_after_the_tool() -> None:
    flat = AGENTS["cursor"].answer(Event.SESSION_START, "sessionStart", "text")
    assert json.loads(flat) == {"additional_context": "text"}
    assert AGENTS["gemini-cli"].answer(Event.BEFORE_SEARCH, "AfterTool", "text")
    assert AGENTS["gemini-cli"].answer(Event.BEFORE_SEARCH, "BeforeTool", "text") == ""
    assert AGENTS["cursor"].answer(Event.AFTER_EDIT, "afterFileEdit", "text") == ""


@pytest.mark.parametrize("agent", AGENTS.values(), ids=lambda agent: agent.name)
@pytest.mark.parametrize("event", Event)
@given(text=st.text())
def test_an_answer_is_json_or_nothing(agent: Any, event: Event, text: str) -> None:
    said = agent.answer(event, "", text)
    assert said == "" or isinstance(json.loads(said), dict)
    assert said.isascii()


def test_agents_go_by_their_usual_names() -> None:
    assert agent_of("gemini") is AGENTS["gemini-cli"]
    assert agent_of("nobody") is None


def test_the_end_of_a_session_can_be_switched_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("subprocess.Popen", lambda words, **more: started.append(words))
    (folder / "postgres").mkdir()
    transcript = folder / "t.jsonl"
    transcript.write_text("{}\n")
    said = payload(folder, hook_event_name="SessionEnd", transcript_path=str(transcript))
    home = {"PLAIT_HOME": str(folder)}
    for agent, environ, times in (
        ("claude-code", {**home, "PLAIT_HOOKS__SESSION_END": "false"}, 0),
        ("cursor", home, 0),  # its transcripts can't be imported
        ("claude-code", {"PLAIT_HOME": str(folder / "unused")}, 0),
        ("claude-code", home, 1),
    ):
        assert answer(Event.SESSION_END, AGENTS[agent], said, load(environ=environ)) == ""
        assert len(started) == times
    assert started[0][-1] == str(transcript)
