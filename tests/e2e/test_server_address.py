"""Who is the server of a home, while it is looked for, claimed and given up at the same time."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from plait.client import discovery
from plait.client.discovery import ServerAddress
from plait.client.errors import PlaitRpcError
from plait.domain.errors import ServerAlreadyRunning, ServerNotAnswering
from plait.settings import Settings, load
from plait.v1.index_service_pb2 import ListRepositoriesResponse
from server import local
from server.process.address import announce, claimed, withdraw

ADDRESS = ServerAddress(1, "", "127.0.0.1", 1, "0", "2026-01-01T00:00:00+00:00")


def alone(home: Path) -> Settings:
    """Settings by which a command starts no service of `home`."""
    return load(environ={"PLAIT_HOME": str(home), "PLAIT_CLIENT__AUTOSTART": "false"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Commands of this home that start a server of their own get one at `unix:own`."""

    @asynccontextmanager
    async def own(_: Settings) -> AsyncIterator[str]:
        yield "unix:own"

    monkeypatch.setattr(local, "_own_server", own)
    return alone(home)


@pytest.fixture
def dead_end(home: Path) -> Iterator[ServerAddress]:
    """A server that holds its claim and has an address at which nobody listens."""
    with claimed(home) as socket:
        address = replace(ADDRESS, socket=f"{socket}.gone")
        announce(home, address)
        yield address


def test_one_server_a_home(home: Path) -> None:
    assert not discovery.is_claimed(home)
    with claimed(home):
        assert discovery.is_claimed(home)
        with pytest.raises(ServerAlreadyRunning), claimed(home):
            pytest.fail("two servers of one home")
    assert not discovery.is_claimed(home)


def test_who_looks_for_a_server_keeps_none_from_starting(home: Path) -> None:
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            discovery.is_claimed(home)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(200):
            with claimed(home):
                pass
    finally:
        stop.set()
        for looker in lookers:
            looker.join()


async def test_a_server_that_does_not_answer_is_named(
    settings: Settings, dead_end: ServerAddress
) -> None:
    with pytest.raises(ServerNotAnswering):
        async with local.connected(settings):
            pytest.fail("nobody answered")


class Listing:
    """A server of `socket` that is healthy and knows no repositories."""

    def __init__(self, socket: str) -> None:
        self.target = f"unix:{socket}"
        self.server = grpc.aio.server()
        self.asked = 0
        serving = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
        for service, method, answer in (
            ("grpc.health.v1.Health", "Check", serving),
            ("plait.v1.IndexService", "ListRepositories", ListRepositoriesResponse()),
        ):
            handler = grpc.unary_unary_rpc_method_handler(self._answering(answer))
            self.server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {method: handler}),)
            )
        self.server.add_insecure_port(self.target)

    def _answering(self, message: Message) -> Callable[..., Awaitable[bytes]]:
        async def answer(request: bytes, context: object) -> bytes:
            self.asked += 1
            return message.SerializeToString()

        return answer


async def test_a_server_that_ends_between_two_calls_is_gone_without(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = Listing(f"{folder}/own")

        @asynccontextmanager
        async def own(_: Settings) -> AsyncIterator[str]:
            await other.server.start()
            yield other.target
            await other.server.stop(None)

        monkeypatch.setattr(local, "_own_server", own)
        first = Listing(f"{folder}/first")
        await first.server.start()
        with claimed(home):
            announce(home, replace(ADDRESS, socket=f"{folder}/first"))
            async with local.connected(alone(home)) as client:
                assert await client.list_repositories() == ()
                assert (first.asked, other.asked) == (1, 0)
                withdraw(home)
                await first.server.stop(None)
                found = await asyncio.gather(*(client.list_repositories() for _ in range(3)))
                assert found == [(), (), ()]
                assert other.asked == 3


async def test_a_server_that_is_there_and_fails_is_not_replaced(
    settings: Settings, home: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = Listing(f"{folder}/first")
        await first.server.start()
        with claimed(home):
            announce(home, replace(ADDRESS, socket=f"{folder}/first"))
            async with local.connected(settings) as client:
                await first.server.stop(None)
                with pytest.raises(PlaitRpcError):
                    await client.list_repositories()
                assert client.target == first.target
