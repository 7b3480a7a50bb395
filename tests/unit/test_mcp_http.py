"""The gate before the HTTP server: addresses, the token, names and pages."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from plait.client.discovery import mcp_token_path
from plait.domain.errors import McpAddressRefused, TokenUnsafe
from plait.supervisor import token_file
from plait.supervisor.token_file import Tokens
from server.mcp import http
from server.mcp.http import Address, Gate, address, token

SECRET = "s" * 43


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:50052", "127.0.0.1", 50052),
        ("localhost:0", "localhost", 0),
        ("[::1]:8080", "::1", 8080),
        (":8080", "127.0.0.1", 8080),
        ("8080", "127.0.0.1", 8080),
    ],
)
def test_addresses_of_this_machine(text: str, host: str, port: int) -> None:
    assert address(text) == Address(host, port)


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:x", "::1:80", "127.0.0.1:70000"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(McpAddressRefused, match="HOST:PORT"):
        address(text)


def test_other_machines_only_when_told_so() -> None:
    for text in ("0.0.0.0:80", "[::]:80", "192.0.2.1:80", "build.example.com:80"):
        with pytest.raises(McpAddressRefused, match=r"no TLS.*--name NAME"):
            address(text)
    assert address("0.0.0.0:80", ["build"]) == Address("0.0.0.0", 80, ("build",))


# -- the token ---------------------------------------------------------------------------------------------


def test_the_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    found: list[str] = []

    def start() -> None:
        token(tmp_path)
        found.append(token_file.read(mcp_token_path(tmp_path)).current)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) >= 40
    assert mcp_token_path(tmp_path).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in mcp_token_path(tmp_path).parent.iterdir()] == ["mcp.token"]


def test_a_token_that_others_can_read_or_choose_is_not_used(tmp_path: Path) -> None:
    token(tmp_path)
    path = mcp_token_path(tmp_path)
    path.chmod(0o644)
    with pytest.raises(TokenUnsafe, match="remove it"):
        token(tmp_path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TokenUnsafe, match="can't be read"):
        token(tmp_path)
    path.unlink()
    path.touch(0o600)
    with pytest.raises(TokenUnsafe, match="too short"):
        token(tmp_path)


# -- the gate ----------------------------------------------------------------------------------------------


async def status(*, names: tuple[str, ...] = (), **headers: str) -> int:
    """What the gate answers to a POST with these headers; 200 where it lets the request through."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()  # nothing of the body is asked for

    wire = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": http.PATH, "headers": wire}
    await Gate(app, Tokens(SECRET).accept, names)(scope, receive, send)
    return int(sent[0]["status"])


BEARER = f"Bearer {SECRET}"
HOST = "127.0.0.1:50052"


async def test_only_the_token_opens() -> None:
    assert await status(host=HOST, authorization=BEARER) == 200
    assert await status(host=HOST) == 401
    for wrong in ("", SECRET, BEARER + "x"):
        assert await status(host=HOST, authorization=wrong) == 401
    assert await status(host=HOST, authorization="Bearer \xff\x00") == 401


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1.evil.example",
        "http://localhost.evil.example:80",
    ],
)
async def test_a_foreign_page_is_shut_out_with_the_token_and_without(origin: str) -> None:
    assert await status(host=HOST, origin=origin, authorization=BEARER) == 403
    assert await status(host=HOST, origin=origin) == 403


async def test_a_page_of_this_machine_needs_the_token_too() -> None:
    assert await status(host=HOST, origin="http://localhost:6274", authorization=BEARER) == 200
    assert await status(host=HOST, origin="http://localhost:6274") == 401


async def test_a_name_that_was_bent_to_this_machine_is_none_of_ours() -> None:
    for host in ("evil.example", "evil.example:50052", "127.0.0.1.evil.example:50052", ""):
        assert await status(host=host, authorization=BEARER) == 421
    assert await status(names=("build",), host="build:50052", authorization=BEARER) == 200
    assert (
        await status(names=("build",), host="build", origin="https://build", authorization=BEARER)
        == 200
    )
