"""`plait hook` as an agent calls it: a process, with a service that answers, is away, hangs, or dies."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.client import PlaitClient, PlaitRpcError, discovery
from plait.client.hooks import FileEdit, HookClient
from server.hooks.shown import folder as shown_in
from tests.processes import LIMIT_S, wait_until

REPO = "hooked"
CODE = '''\
"""Lighthouses."""


def blink_interval(tower):
    """Seconds between two flashes of a lighthouse."""
    return 2.5 + len(tower)


def flash(tower):
    return blink_interval(tower)
'''
TEST = """\
from lights import blink_interval


def test_blink_interval():
    assert blink_interval("") == 2.5
"""
EVENTS = ("session-start", "after-edit", "before-search", "session-end")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hooks") / REPO
    root.mkdir()
    (root / ".git").mkdir()
    (root / "lights.py").write_text(CODE)
    (root / "test_lights.py").write_text(TEST)
    return root


@pytest.fixture(scope="module")
def served(
    plait_home: Path, command_environment: dict[str, str], embedded_postgres_dsn: str, root: Path
) -> Iterator[dict[str, str]]:
    """The environment of commands beside a `plait serve` that has indexed the folder."""
    command = [sys.executable, "-P", "-m", "server.cli", "serve"]
    serving = subprocess.Popen(command, env=command_environment)

    def answers() -> bool:
        assert serving.poll() is None
        return discovery.running(plait_home) is not None

    try:
        wait_until(answers)
        address = discovery.running(plait_home)
        assert address is not None
        with PlaitClient(address.target) as client:
            job = client.start_index(str(root), repository=REPO, embed=False)
            wait_until(lambda: client.get_index_job(job.id).final)
            assert client.get_index_job(job.id).state == "succeeded"
        yield command_environment
    finally:
        serving.terminate()
        serving.wait(LIMIT_S)
        shutil.rmtree(shown_in(plait_home), ignore_errors=True)


def hook(event: str, stdin: bytes | dict[str, Any], env: dict[str, str], *more: str) -> Any:
    """The hook's process after it ended; as patient as a test, but where `env` says its own limit."""
    raw = json.dumps(stdin).encode() if isinstance(stdin, dict) else stdin
    return subprocess.run(
        [sys.executable, "-P", "-m", "server.cli", "hook", event, "--agent", "claude-code", *more],
        input=raw,
        env={"PLAIT_HOOKS__LIMIT_S": f"{LIMIT_S:g}", **env},
        capture_output=True,
        timeout=LIMIT_S,
    )


def told(done: Any) -> str:
    """The text for the session; "" where the hook was silent."""
    assert done.returncode == 0, done.stderr
    if not done.stdout:
        return ""
    text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str)
    return text


def said(root: Path, session: str, event: str, **more: Any) -> dict[str, Any]:
    return {"session_id": session, "cwd": str(root), "hook_event_name": event, **more}


def edit(root: Path, session: str, old: str, new: str) -> dict[str, Any]:
    given = {"file_path": str(root / "lights.py"), "old_string": old, "new_string": new}
    return said(root, session, "PostToolUse", tool_name="Edit", tool_input=given)


def grep(root: Path, session: str, pattern: str) -> dict[str, Any]:
    given = {"pattern": pattern}
    return said(root, session, "PreToolUse", tool_name="Grep", tool_input=given)


# -- with a service ---------------------------------------------------------------------------------------


def test_a_session_starts_with_what_is_indexed_once(served: dict[str, str], root: Path) -> None:
    start = said(root, "start", "SessionStart", source="startup")
    first = told(hook("session-start", start, served))
    assert first.startswith("Plait has hooked indexed: 2 files, indexed ")
    assert told(hook("session-start", start, served)) == ""


def test_an_edit_names_callers_and_tests_once_in_a_session(
    served: dict[str, str], root: Path
) -> None:
    change = ("def blink_interval(tower):", "def blink_interval(tower, lamp):")
    first = told(hook("after-edit", edit(root, "edits", *change), served))
    assert "`blink_interval` changed its parameters; these call it:\n- lights.py:9 " in first
    assert "Tests that run it:\n- test_lights.py::test_blink_interval" in first
    assert told(hook("after-edit", edit(root, "edits", *change), served)) == ""
    assert told(hook("after-edit", edit(root, "others", *change), served)) == first


def test_a_search_names_definitions_that_no_hook_named_before(
    served: dict[str, str], root: Path
) -> None:
    found = told(
        hook("before-search", grep(root, "searches", r"def (flash|blink_interval)\("), served)
    )
    assert "lights.py:4-6 lights.blink_interval (function)" in found
    assert "lights.py:9-10 lights.flash (function)" in found
    assert told(hook("before-search", grep(root, "searches", "flash"), served)) == ""
    # Across hooks: the caller was shown as a definition.
    change = ("def blink_interval(tower):", "def blink_interval(tower, lamp):")
    after = told(hook("after-edit", edit(root, "searches", *change), served))
    assert "these call it" not in after
    assert "test_lights.py::test_blink_interval" in after


def test_nothing_is_said_outside_the_index_or_of_unknown_names(
    served: dict[str, str], root: Path, tmp_path: Path
) -> None:
    assert told(hook("before-search", grep(root, "none", "no_such_name"), served)) == ""
    assert told(hook("before-search", grep(tmp_path, "none", "flash"), served)) == ""
    assert told(hook("session-start", said(tmp_path, "none", "SessionStart"), served)) == ""
    outside = edit(tmp_path, "none", "def flash(tower):", "def flash(tower, n):")
    assert told(hook("after-edit", outside, served)) == ""


@pytest.mark.parametrize("event", EVENTS[:3])
def test_each_hook_is_switched_off_alone(served: dict[str, str], root: Path, event: str) -> None:
    name = f"PLAIT_HOOKS__{event.upper().replace('-', '_')}"
    said_to = {
        "session-start": said(root, f"off {event}", "SessionStart"),
        "after-edit": edit(root, f"off {event}", "def flash(tower):", "def flash(tower, n):"),
        "before-search": grep(root, f"off {event}", "blink_interval"),
    }
    assert told(hook(event, said_to[event], {**served, name: "false"})) == ""
    if event != "after-edit":  # nothing calls `flash`
        assert told(hook(event, said_to[event], served))


def test_hooks_at_the_same_time_name_a_symbol_once(served: dict[str, str], root: Path) -> None:
    found: list[str] = []

    def ask() -> None:
        found.append(told(hook("before-search", grep(root, "many", "blink_interval"), served)))

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for one in asking:
        one.start()
    for one in asking:
        one.join(LIMIT_S)
    assert len([text for text in found if text]) == 1, found


def test_the_end_of_a_session_stores_its_transcript_once(
    served: dict[str, str], root: Path, tmp_path: Path, plait_home: Path
) -> None:
    transcript = tmp_path / "ended.jsonl"
    turns = [
        {"type": "user", "message": {"role": "user", "content": "make it blink faster"}},
        {
            "type": "assistant",
            "message": {
                "role": "assistant", "id": "m1", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "The interval is 2.5 seconds now."}],
            },
        },
    ]  # fmt: skip
    more = {"cwd": str(root), "sessionId": "ended", "timestamp": "2026-01-05T10:00:00.000Z"}
    transcript.write_text("".join(json.dumps({**turn, **more}) + "\n" for turn in turns))
    end = said(root, "ended", "SessionEnd", transcript_path=str(transcript), reason="exit")
    address = discovery.running(plait_home)
    assert address is not None
    with PlaitClient(address.target) as client:

        def stored() -> int:
            hits = client.search("blink faster", where=_episodes()).hits
            return sum(hit.item.content.endswith("make it blink faster") for hit in hits)

        assert stored() == 0
        for _ in range(2):
            assert told(hook("session-end", end, served)) == ""
        wait_until(stored)
        wait_until(lambda: not _ingesting(transcript))
        assert stored() == 1


def _episodes() -> Any:
    from plait.client import Filter
    from plait.domain.values import Collection

    agents = tuple(c for c in Collection if c is not Collection.FILES)
    return Filter(repos=(REPO,), collections=agents)


def _ingesting(transcript: Path) -> bool:
    import psutil

    words = (p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"]))
    return any(str(transcript) in line and "server.hooks.session_end" in line for line in words)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c: c.describe_folder("relative"), "folder"),
        (lambda c: c.describe_folder("/" + "x" * 5000), "folder"),
        (lambda c: c.name_symbols("/src", []), "names"),
        (lambda c: c.name_symbols("/src", ["x" * 300]), "names[0]"),
        (lambda c: c.name_symbols("/src", ["x"] * 21), "names"),
        (lambda c: c.advise_edit([]), "edits"),
        (lambda c: c.advise_edit([FileEdit("a.py", "@@")]), "edits[0].path"),
        (lambda c: c.advise_edit([FileEdit("/a.py", "x" * 300_000)]), "edits"),
    ],
)
def test_a_bad_call_is_told_its_field(
    served: dict[str, str], plait_home: Path, call: Any, field: str
) -> None:
    address = discovery.running(plait_home)
    assert address is not None
    with HookClient(address.target, timeout_s=LIMIT_S) as client:
        with pytest.raises(PlaitRpcError) as caught:
            call(client)
    assert field in caught.value.fields


def test_bounds_of_what_may_be_said_are_checked(
    served: dict[str, str], plait_home: Path, root: Path
) -> None:
    address = discovery.running(plait_home)
    assert address is not None
    with HookClient(address.target, timeout_s=LIMIT_S) as client:
        with pytest.raises(PlaitRpcError, match="budget_tokens"):
            client.name_symbols(str(root), ["flash"], budget_tokens=5000)
        with pytest.raises(PlaitRpcError, match="known_keys"):
            client.name_symbols(str(root), ["flash"], ["0"] * 5000)
        garbage = FileEdit(str(root / "lights.py"), "no hunk \0 at all\n@@ @@ -1 +1\n+\ud7ff")
        assert client.advise_edit([garbage]).remarks == ()
        (one,) = client.name_symbols(
            str(root), ["flash"], budget_tokens=20, tokenizer="claude"
        ).remarks or (None,)
        assert one is None or one.text.startswith("lights.py:")


def test_a_hook_loads_no_heavy_library(command_environment: dict[str, str]) -> None:
    heavy = ("numpy", "rich", "psycopg", "neo4j", "onnxruntime", "quicktok", "argparse")
    code = (
        "import sys, plait.client.hooks, server.commands.hook, server.hooks.answer, server.hooks.edits;"
        "import server.hooks.searches, server.hooks.session_end, etl.ingest.importers.edits;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(
        command, env=command_environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.stdout == "[]\n", done.stderr


# -- without one ------------------------------------------------------------------------------------------

GARBAGE: tuple[bytes, ...] = (
    b"", b"\0", b"\xff\xfe\xfa", b"null", b"[]", b'"x"', b"{", b'{"session_id": 3, "cwd": []}',
    b"[" * 200_000, b'{"session_id": "s", "cwd": "/", "tool_input": {"pattern": "' + b"x" * 2_000_000 + b'"}}',
)  # fmt: skip


@pytest.mark.parametrize("event", [*EVENTS, "no-such-event"])
def test_garbage_is_answered_by_silence_and_zero(
    event: str, tmp_path: Path, command_environment: dict[str, str]
) -> None:
    env = {**command_environment, "PLAIT_HOME": str(tmp_path / "home")}
    # All of it in one process would hide an exit: but the worst alone, of each event.
    for raw in GARBAGE if event == "after-edit" else GARBAGE[2:3] + GARBAGE[-2:]:
        done = hook(event, raw, env)
        assert (done.returncode, done.stdout) == (0, b"")
    assert not (tmp_path / "home").exists()


def test_wrong_words_and_settings_are_no_error_code(
    tmp_path: Path, command_environment: dict[str, str]
) -> None:
    env = {**command_environment, "PLAIT_HOME": str(tmp_path)}
    for words in (("session-start", "--agent", "nobody"), ("session-start", "--new-option")):
        command = [sys.executable, "-P", "-m", "server.cli", "hook", *words]
        done = subprocess.run(command, input=b"{}", env=env, capture_output=True, timeout=LIMIT_S)
        assert (done.returncode, done.stdout) == (0, b"")
    wrong = {**env, "PLAIT_HOOKS__AFTER_EDIT": "perhaps"}
    done = hook("after-edit", {}, wrong)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_home_without_a_service_is_left_as_it_is(
    root: Path, tmp_path: Path, command_environment: dict[str, str]
) -> None:
    home = tmp_path / "home"
    env = {**command_environment, "PLAIT_HOME": str(home)}
    assert told(hook("session-start", said(root, "s", "SessionStart"), env)) == ""
    assert told(hook("before-search", grep(root, "s", "flash"), env)) == ""
    transcript = tmp_path / "t.jsonl"
    transcript.write_text("{}\n")
    end = said(root, "s", "SessionEnd", transcript_path=str(transcript))
    assert told(hook("session-end", end, env)) == ""
    assert not home.exists()
    assert not _ingesting(transcript)


class FakeService:
    """A socket in the place of a service's, that takes calls and never answers; or hangs up."""

    def __init__(self, home: Path, *, hangs_up: bool) -> None:
        path = discovery.socket_path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(8)
        self._taken: list[socket.socket] = []
        self._hangs_up = hangs_up
        address = discovery.ServerAddress(os.getpid(), str(path), "", 0, "0", "")
        (discovery.folder(home) / "server.json").write_text(address.to_json())
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            if self._hangs_up:
                taken.recv(1)
                taken.close()
            else:
                self._taken.append(taken)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._serving.join(LIMIT_S)
        for taken in self._taken:
            taken.close()


@pytest.mark.parametrize("hangs_up", [False, True], ids=["hung", "killed in the middle"])
def test_a_broken_service_costs_a_second_and_no_more(
    hangs_up: bool, root: Path, plait_home: Path, command_environment: dict[str, str]
) -> None:
    home = plait_home / f"f{hangs_up:d}"  # short: a socket's path has a limit
    service = FakeService(home, hangs_up=hangs_up)
    # The hook's own limit, not a test's patience.
    env = {**command_environment, "PLAIT_HOME": str(home), "PLAIT_HOOKS__LIMIT_S": "1"}
    try:
        for event, one in (
            ("session-start", said(root, "b", "SessionStart")),
            ("before-search", grep(root, "b", "flash")),
        ):
            assert told(hook(event, one, env)) == ""
    finally:
        service.close()
        shutil.rmtree(home)


def test_a_client_that_never_closes_standard_input_is_not_waited_for(
    tmp_path: Path, command_environment: dict[str, str]
) -> None:
    env = {**command_environment, "PLAIT_HOME": str(tmp_path), "PLAIT_HOOKS__LIMIT_S": "0.5"}
    command = [sys.executable, "-P", "-m", "server.cli", "hook", "after-edit"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as waiting:
        assert waiting.wait(LIMIT_S) == 0


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "empty", "missing", "relative"])
def test_only_a_plain_file_of_ones_own_is_a_transcript(kind: str, tmp_path: Path) -> None:
    from server.hooks.session_end import importable

    path = tmp_path / "t.jsonl"
    if kind == "link":
        (tmp_path / "real.jsonl").write_text("{}\n")
        path.symlink_to(tmp_path / "real.jsonl")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    assert not importable(path)
    path.with_name("good.jsonl").write_text("{}\n")
    assert importable(path.with_name("good.jsonl"))
