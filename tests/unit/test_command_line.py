"""The console script: light to start, and every failure a line and an exit code."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from plait.client import discovery
from plait.domain.errors import PortTaken, RepositoryNotIndexed, ServerAlreadyRunning
from server import cli
from server.commands import frame
from server.process import address

HEAVY = {
    "grpc",
    "numpy",
    "onnxruntime",
    "psycopg",
    "neo4j",
    "openai",
    "pydantic",
    "rich",
    "tree_sitter",
    "google.protobuf",
}
HELP = [
    "",
    "index",
    "search",
    "graph",
    "ingest",
    "repos",
    "serve",
    "install",
    "uninstall",
    "version",
]


@pytest.mark.parametrize("command", HELP)
def test_help_imports_nothing_heavy(command: str) -> None:
    code = f"""
import sys
from server import cli
try:
    cli.main({[command, "--help"] if command else ["--help"]})
except SystemExit as end:
    assert end.code == 0, end.code
print("IMPORTED", *sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split("IMPORTED")[1].split())
    assert not HEAVY & loaded
    assert "plait" in done.stdout.split("IMPORTED")[0]
    if command != "version":
        assert "example" in done.stdout


def test_every_command_has_a_module() -> None:
    from importlib.util import find_spec

    for module, about in cli.COMMANDS.values():
        assert find_spec(module) is not None, module
        assert about


# What has doors to the stores of its own; tests/e2e/test_first_command.py has each be a machine's first.
OWN_DOORS = {"index", "serve", "doctor", "version"} | {"rebuild"}  # the last is a part of `verify`
# What asks a service that runs already and starts none, `mcp`, which connects at its first call, and what needs
# none at all.
OWN_DOORS |= {"hook", "status", "stop", "mcp", "install", "uninstall", "completion"}


@pytest.mark.parametrize("command", sorted(cli.COMMANDS.keys() - OWN_DOORS))
def test_commands_reach_the_stores_through_one_door(command: str) -> None:
    source = Path(str(import_module(cli.COMMANDS[command][0]).__file__)).read_text()
    assert "from server.local import connected" in source


def test_a_misspelt_command_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serach"]) == 2
    assert "did you mean `plait search`?" in capsys.readouterr().err


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "plait index ." in capsys.readouterr().out


# -- failures ---------------------------------------------------------------------------------------------


def run(raised: BaseException | None, *, as_json: bool = False, debug: bool = False) -> int:
    def work() -> int:
        if raised is not None:
            raise raised
        return frame.NOTHING_FOUND

    return frame.run(argparse.Namespace(json=as_json, debug=debug), work)


def test_an_error_is_a_line_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RepositoryNotIndexed("x")) == frame.FAILED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: repository 'x'")
    assert err.rstrip().endswith("[REPOSITORY_NOT_INDEXED]")
    assert err.count("\n") == 1


def test_an_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RepositoryNotIndexed("x"), as_json=True) == frame.FAILED
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["reason"], error["metadata"]) == ("REPOSITORY_NOT_INDEXED", {"repository": "x"})


def test_a_fault_is_a_line_and_a_traceback_only_when_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(ValueError("oops")) == frame.FAILED
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "oops" in err
    assert run(ValueError("oops"), debug=True) == frame.FAILED
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_has_its_own_code() -> None:
    assert run(KeyboardInterrupt()) == frame.INTERRUPTED


def test_an_answer_keeps_its_code() -> None:
    assert run(None) == frame.NOTHING_FOUND


# -- one server a home ----------------------------------------------------------------------------------------


def an_address(home: Path) -> discovery.ServerAddress:
    socket = str(discovery.socket_path(home))
    return discovery.ServerAddress(1, socket, "127.0.0.1", 50051, "0", "2026-01-01")


def test_a_home_has_one_server(tmp_path: Path) -> None:
    with address.claimed(tmp_path):
        address.announce(tmp_path, an_address(tmp_path))
        assert discovery.is_claimed(tmp_path)
        assert discovery.read(tmp_path) == an_address(tmp_path)
        with pytest.raises(ServerAlreadyRunning, match=r"process 1 at 127\.0\.0\.1:50051"):
            with address.claimed(tmp_path):
                pytest.fail("two servers of one home")
        assert discovery.read(tmp_path) == an_address(tmp_path)
    assert not discovery.is_claimed(tmp_path)
    assert discovery.read(tmp_path) is None


def test_what_a_killed_server_left_is_in_nobodys_way(tmp_path: Path) -> None:
    with address.claimed(tmp_path):
        pass
    address.announce(tmp_path, an_address(tmp_path))
    discovery.socket_path(tmp_path).touch()
    assert not discovery.is_claimed(tmp_path)
    with address.claimed(tmp_path) as socket:
        assert not socket.exists()
        assert discovery.read(tmp_path) is None


def test_a_home_nobody_served_is_not_claimed(tmp_path: Path) -> None:
    assert not discovery.is_claimed(tmp_path / "missing")


def test_folder_and_address_are_private(tmp_path: Path) -> None:
    with address.claimed(tmp_path):
        address.announce(tmp_path, an_address(tmp_path))
        folder = discovery.folder(tmp_path)
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "server.json").stat().st_mode & 0o077 == 0


def test_a_long_home_gets_a_short_private_socket(tmp_path: Path) -> None:
    home = tmp_path / ("h" * 150)
    home.mkdir()
    with address.claimed(home) as socket:
        assert len(str(socket).encode()) <= discovery.MAX_SOCKET_BYTES
        assert socket.parent.stat().st_mode & 0o077 == 0
    assert discovery.socket_path(home) != discovery.socket_path(tmp_path)
    socket.parent.rmdir()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"nonsense": 1}'])
def test_a_broken_address_file_is_no_address(tmp_path: Path, text: str) -> None:
    discovery.folder(tmp_path).mkdir()
    (discovery.folder(tmp_path) / "server.json").write_text(text)
    assert discovery.read(tmp_path) is None


def test_port_errors_name_the_option() -> None:
    assert PortTaken.reason == "PORT_TAKEN"
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", "--port", "70000"])
    assert caught.value.code == 2
