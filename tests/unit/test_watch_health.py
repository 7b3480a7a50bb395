"""The health watch ends when the server does, whatever it is at."""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health_pb2

from plait.domain.errors import StoreUnavailable
from server.grpc import server

States = health_pb2.HealthCheckResponse


class Told:
    """Health clients are told this."""

    def __init__(self) -> None:
        self.states: list[int] = []

    async def set(self, service: str, status: int) -> None:
        if service == "":
            self.states.append(status)

    async def enter_graceful_shutdown(self) -> None: ...


class Truth:
    """A store that swallows a cancellation, as `asyncio.wait_for` of Python 3.11 may."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked = asyncio.Event()

    async def waiting(self) -> int:
        if self.answers:
            if self.answers.pop(0):
                return 0
            raise StoreUnavailable("away")
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 0
        raise AssertionError("unreachable")


async def test_a_lost_cancellation_does_not_keep_the_server_up() -> None:
    truth, told, stop = Truth(True, False, False, True), Told(), asyncio.Event()
    watch = asyncio.create_task(server.watch_health(truth, told, stop, 0.0))
    await asyncio.wait_for(truth.asked.wait(), 60)
    stop.set()
    watch.cancel()
    done, _ = await asyncio.wait({watch}, timeout=60)
    assert done
    assert told.states == [States.NOT_SERVING, States.SERVING]
