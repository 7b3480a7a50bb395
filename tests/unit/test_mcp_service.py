"""The connection to the service: shared by calls, left when idle, made again when the service has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from plait.client.errors import PlaitRpcError
from plait.domain.errors import ServerNotAnswering
from server.mcp.service import AT_ONCE, TRIES, Service
from tests.processes import eventually


class Connections:
    """Clients are numbers, from 1; those below `works_from` belong to a service that has ended."""

    def __init__(self, works_from: int = 1) -> None:
        self.made = 0
        self.open = 0
        self.at_once = 0
        self.works_from = works_from

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        self.made += 1
        self.open += 1
        entered = asyncio.current_task()
        try:
            yield self.made
        finally:
            self.open -= 1
            assert asyncio.current_task() is entered

    async def call(self, client: Any) -> int:
        if client < self.works_from:
            raise PlaitRpcError(grpc.StatusCode.UNAVAILABLE, "gone")
        self.at_once += 1
        assert self.at_once <= AT_ONCE
        await asyncio.sleep(0)
        self.at_once -= 1
        return int(client)


async def closed(made: Connections, left: int = 0) -> None:
    async def holds() -> bool:
        return made.open == left

    await eventually(holds)


async def test_calls_share_one_connection_and_take_turns() -> None:
    made = Connections()
    service = Service(made.connect)
    assert set(await asyncio.gather(*(service.ask(made.call) for _ in range(50)))) == {1}
    await service.close()
    assert made.open == 0


async def test_a_service_that_restarted_is_found_again() -> None:
    made = Connections()
    service = Service(made.connect)
    assert await service.ask(made.call) == 1
    made.works_from = 2
    answers = await asyncio.gather(*(service.ask(made.call) for _ in range(20)))
    assert set(answers) == {2}
    await closed(made, left=1)
    await service.close()


async def test_a_service_that_never_answers_is_given_up() -> None:
    made = Connections(works_from=99)
    service = Service(made.connect)
    with pytest.raises(PlaitRpcError, match="gone"):
        await service.ask(made.call)
    assert made.made == TRIES
    await service.close()
    assert made.open == 0


async def test_what_fails_for_another_reason_is_not_asked_again() -> None:
    made, asked = Connections(), 0
    service = Service(made.connect)

    async def wrong(client: Any) -> None:
        nonlocal asked
        asked += 1
        raise PlaitRpcError(grpc.StatusCode.INVALID_ARGUMENT, "wrong")

    with pytest.raises(PlaitRpcError, match="wrong"):
        await service.ask(wrong)
    assert (asked, made.made) == (1, 1)
    await service.close()


async def test_a_connection_that_can_not_be_made_fails_its_calls_and_is_tried_anew() -> None:
    tries = 0

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        nonlocal tries
        tries += 1
        raise ServerNotAnswering("busy")
        yield  # the decorator wants a generator

    service = Service(connect)
    with pytest.raises(ServerNotAnswering):
        await service.ask(Connections().call)
    assert tries == TRIES
    await service.close()


async def test_an_idle_connection_is_left() -> None:
    made = Connections()
    service = Service(made.connect, idle_s=0.0)
    assert await service.ask(made.call) == 1
    await closed(made)
    assert await service.ask(made.call) == 2
    await service.close()


async def test_a_cancelled_call_leaves_the_others_alone() -> None:
    made = Connections()
    service = Service(made.connect)
    started = asyncio.Event()

    async def slow(client: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(service.ask(slow))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await service.ask(made.call) == 1
    await service.close()
    assert made.open == 0
