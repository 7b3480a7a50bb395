"""The hourly collection: it goes on after faults, and ends when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from plait.domain.errors import StoreUnavailable
from server.background_jobs.collect import Collector
from tests.processes import LIMIT_S


class Receipts:
    """Receipts of which there is always one more to collect; it fails twice first."""

    def __init__(self, enough: int) -> None:
        self.calls = 0
        self.enough = enough
        self.stop = asyncio.Event()

    async def collect(self) -> Mapping[str, int]:
        self.calls += 1
        if self.calls == self.enough:
            self.stop.set()
        if self.calls == 1:
            raise StoreUnavailable("gone")
        if self.calls == 2:
            raise ZeroDivisionError
        return {"recall": 3}


async def test_it_goes_on_after_faults_until_it_is_told_to_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Receipts(enough=4)
    caplog.set_level("INFO")
    await asyncio.wait_for(
        Collector(store, first_s=0.001, every_s=0.001).run_forever(store.stop), LIMIT_S
    )
    assert store.calls == 4
    told = [record.getMessage() for record in caplog.records]
    assert told.count("collecting receipts failed") == 2
    assert told.count("receipts collected") == 2


async def test_a_server_that_ends_soon_collects_nothing() -> None:
    store = Receipts(enough=1)
    store.stop.set()
    await asyncio.wait_for(Collector(store).run_forever(store.stop), LIMIT_S)
    assert store.calls == 0
