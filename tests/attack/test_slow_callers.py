"""Callers who begin and never end, never read, or never stop: who is honest gets answers all the while.

Raw HTTP/2 against a server with short limits, by somebody without a token, with a key, and, on the socket, by
a process of the owner's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec import structs

from plait.client import AsyncPlaitClient, new_memory
from plait.domain.access import Caller
from plait.settings import Settings
from server.access.callers import unknown
from server.app import App
from server.grpc.server import Server, running
from tests.attack.http2 import (
    CONTINUATION,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Raw,
    call_headers,
    field,
    frame,
    setting,
)
from tests.e2e import conftest
from tests.processes import LIMIT_S

app, rest_between_files = conftest.app, conftest.rest_between_files

LIST = "/plait.v1.IndexService/ListRepositories"
STORED = "/plait.v1.MemoryService/ListMemories"
HALF = b"\x00\x00\x00\x10\x00half"  # of a message said to have 4,096 bytes
CONNECTIONS, CALLS = 5, 60
KEY, HONEST = "k" * 43, "h" * 43


class Keys:
    async def caller(self, secret: str) -> Caller:
        if secret not in (KEY, HONEST):
            raise unknown()
        return Caller(secret[:5])


@pytest.fixture
async def server(
    app: App, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Server]:
    limits = structs.replace(
        settings.server,
        max_concurrent=16,
        max_concurrent_per_key=8,
        max_connections=24,
        max_connections_per_peer=12,
        hello_s=1.0,
        arrive_s=1.0,
        answer_s=1.0,
        stream_idle_s=1.0,
    )
    monkeypatch.setattr(app, "settings", structs.replace(settings, server=limits))
    with TemporaryDirectory(prefix="plait-") as folder:
        socket = Path(folder) / "plait.sock"
        async with running(app, socket=socket, host="127.0.0.1", port=0, keys=Keys()) as started:
            yield started


@asynccontextmanager
async def honest(server: Server) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Asks over the socket and over TCP, on connections of before and on new ones."""
    tcp = f"127.0.0.1:{server.port}"
    async with (
        AsyncPlaitClient(server.target) as local,
        AsyncPlaitClient(tcp, token=HONEST) as remote,
    ):

        async def ask() -> None:
            await local.list_repositories(timeout_s=LIMIT_S)
            await remote.list_repositories(timeout_s=LIMIT_S)
            async with AsyncPlaitClient(server.target) as late:
                await late.list_repositories(timeout_s=LIMIT_S)
            async with AsyncPlaitClient(tcp, token=HONEST) as late:
                await late.list_repositories(timeout_s=LIMIT_S)

        await ask()
        yield ask


def door(server: Server, name: str) -> tuple[str | int, tuple[tuple[str, str], ...]]:
    """Where the attacker connects, and what they show."""
    if name == "socket":
        return server.target.removeprefix("unix:"), ()
    secret = {"key": KEY, "same key": HONEST}.get(name)
    return server.port, (("authorization", f"Bearer {secret}"),) if secret else ()


WHO = ("stranger", "key", "socket")


@pytest.mark.parametrize("who", [*WHO, "same key"])
async def test_half_sent_calls(server: Server, who: str) -> None:
    target, said = door(server, who)
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        for _ in range(CONNECTIONS):
            raw = await stack.enter_async_context(await Raw.to(target))
            for number in range(CALLS):
                raw.begin(LIST, said, HALF if number % 2 else b"")
        for _ in range(3):
            await ask()


@pytest.mark.parametrize("who", WHO)
async def test_headers_that_never_end(server: Server, who: str) -> None:
    """Slowloris: a header block that goes on and on, a byte now and then."""
    target, _ = door(server, who)
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        all_of_them = [await stack.enter_async_context(await Raw.to(target)) for _ in range(10)]
        for raw in all_of_them:
            raw.send(frame(HEADERS, 0, 1, call_headers(LIST)))
        for number in range(3):
            for raw in all_of_them:
                raw.send(frame(CONTINUATION, 0, 1, field("x", str(number))))
            await ask()
        if who != "socket":
            await asyncio.gather(*(asyncio.wait_for(raw.closed(), LIMIT_S) for raw in all_of_them))


async def test_connections_that_say_nothing_make_place(server: Server) -> None:
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        for _ in range(60):  # of 24 in all, and 12 of one address
            raw = await stack.enter_async_context(await Raw.to(server.port, silent=True))
        await ask()
        assert await asyncio.wait_for(raw.closed(), LIMIT_S)  # the newest, too


async def test_an_answer_that_is_never_read_ends_the_connection(app: App, server: Server) -> None:
    async with AsyncPlaitClient(server.target) as owner:
        for number in range(3):
            entry = new_memory(f"{number} " + "long " * 20_000, repo="attack-long", agent_id="a")
            await owner.store(entry)
    request = b"\x0a\x0d\x0a\x0battack-long"  # filter {repositories: "attack-long"}
    message = b"\x00" + len(request).to_bytes(4, "big") + request
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        raws = []
        for who in ("key", "socket"):
            target, said = door(server, who)
            raw = await stack.enter_async_context(await Raw.to(target, window=0))
            for _ in range(20):
                raw.begin(STORED, said, message)
            raws.append(raw)
        for _ in range(3):
            await ask()
        await asyncio.gather(*(asyncio.wait_for(raw.closed(), LIMIT_S) for raw in raws))


async def test_a_stream_that_stays_silent_ends(server: Server) -> None:
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        for who in ("key", "socket"):
            target, said = door(server, who)
            raw = await stack.enter_async_context(await Raw.to(target))
            for _ in range(20):
                raw.begin("/plait.v1.KnowledgeService/IngestEpisodes", said)
        await ask_until(ask)


async def ask_until(ask: Callable[[], Awaitable[None]]) -> None:
    """Streams of the owner's own may take every place of the socket, until their time is over."""
    from plait.client import PlaitRpcError

    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                await ask()
                return
            except PlaitRpcError as exc:
                if exc.reason != "TOO_MANY_CALLS":
                    raise
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("flood", ["reset", "ping", "settings", "window", "metadata"])
async def test_floods(server: Server, who: str, flood: str) -> None:
    target, said = door(server, who)
    async with AsyncExitStack() as stack:
        ask = await stack.enter_async_context(honest(server))
        raw = await stack.enter_async_context(await Raw.to(target))
        for _ in range(500):
            match flood:
                case "reset":
                    stream = raw.begin(LIST, said)
                    raw.send(frame(RST_STREAM, 0, stream, (8).to_bytes(4, "big")))
                case "ping":
                    raw.send(frame(PING, 0, 0, b"12345678"))
                case "settings":
                    raw.send(frame(SETTINGS, 0, 0, setting(4, 65_535)))
                case "window":
                    raw.send(frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big")))
                case "metadata":
                    raw.begin(LIST, (*said, ("x", "y" * 15_000)))
        for _ in range(2):
            await ask()
