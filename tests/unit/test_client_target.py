"""Where a client goes that was told no address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from etl import index_repo
from plait.client import AsyncPlaitClient, PlaitClient, discovery
from plait.client.discovery import ServerAddress
from plait.domain.errors import ServerNotAnswering


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="plait-") as folder:  # tmp_path may be too long for a socket
        monkeypatch.setenv("PLAIT_HOME", folder)
        discovery.folder(Path(folder)).mkdir()
        yield Path(folder)


def left(home: Path) -> ServerAddress:
    path = str(discovery.socket_path(home))
    address = ServerAddress(1, path, "127.0.0.1", 0, "1", "2026-01-01T00:00:00+00:00")
    (discovery.folder(home) / "server.json").write_text(address.to_json(), encoding="utf-8")
    return address


async def test_the_running_server_of_this_home(home: Path) -> None:
    address = left(home)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address.socket)
        server.listen()
        with PlaitClient() as plait:
            assert plait.target == address.target
        async with AsyncPlaitClient() as other:
            assert other.target == address.target
        with PlaitClient("127.0.0.1:1") as told:
            assert told.target == "127.0.0.1:1"


@pytest.mark.parametrize("stale", [False, True])
def test_none_runs_and_none_may_be_started(
    home: Path, stale: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_CLIENT__AUTOSTART", "false")
    if stale:
        left(home)
    with pytest.raises(ServerNotAnswering, match="PLAIT_SERVER"):
        PlaitClient()


async def test_the_server_that_the_environment_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_SERVER", "team:50051")
    with PlaitClient() as plait:
        assert plait.target == "team:50051"


def test_nothing_is_indexed_where_the_asked_server_never_sees_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAIT_SERVER", "team:50051")
    assert index_repo.main([str(home)]) == 1
    assert "unset PLAIT_SERVER" in capsys.readouterr().err


def test_a_broken_address_file_names_no_server(home: Path) -> None:
    file = discovery.folder(home) / "server.json"
    tree = {"pid": 1, "socket": 3, "host": "", "port": 0, "version": "", "started_at": ""}
    for text in ("{", "[]", str(tree).replace("'", '"')):
        file.write_text(text, encoding="utf-8")
        assert discovery.running(home) is None
