"""Jobs beside the server's calls: repeated, tried again after errors, ended by the server's stop."""

from __future__ import annotations

import asyncio
import logging

import pytest

from plait.domain.errors import EmbeddingUnavailable
from server.background_jobs import repeating
from server.background_jobs.repeating import log_failure, until_stopped


async def test_errors_are_told_and_tried_again_later_and_later_until_one_try_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeating, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(repeating, "LONGEST_RETRY_S", 0.003)
    stop = asyncio.Event()
    outcomes = [ValueError(), ValueError(), ValueError(), None, ValueError(), None]
    told: list[float] = []
    rests = 0

    async def work() -> None:
        if error := outcomes.pop(0):
            raise error

    async def rest() -> None:
        nonlocal rests
        rests += 1
        if not outcomes:
            stop.set()

    await until_stopped(stop, work, rest, lambda exc, again_s: told.append(again_s))
    assert told == [0.001, 0.002, 0.003, 0.001]
    assert rests == 2


async def test_a_stop_ends_a_rest_and_the_wait_after_an_error() -> None:
    for fails in (False, True):
        stop = asyncio.Event()

        async def work(stop: asyncio.Event = stop, fails: bool = fails) -> None:
            asyncio.get_running_loop().call_soon(stop.set)
            if fails:
                raise ValueError

        async def rest() -> None:
            await asyncio.Event().wait()

        async with asyncio.timeout(30):
            await until_stopped(stop, work, rest, lambda exc, again_s: None)


async def test_a_cancelled_job_leaves_no_rest_behind() -> None:
    resting, left = asyncio.Event(), asyncio.Event()

    async def work() -> None: ...

    async def rest() -> None:
        resting.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    job = asyncio.ensure_future(until_stopped(asyncio.Event(), work, rest, lambda *_: None))
    await resting.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert left.is_set()


def test_an_error_of_ours_is_a_warning_and_any_other_has_its_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("jobs")
    for exc in (EmbeddingUnavailable("down"), ValueError("a bug")):
        try:
            raise exc
        except Exception as caught:
            log_failure(logger, "it waits", caught, 2.0)
    ours, other = caplog.records
    assert (ours.levelname, ours.exc_info) == ("WARNING", None)
    assert vars(ours)["reason"] == "EMBEDDING_UNAVAILABLE"
    assert vars(ours)["again_in_s"] == vars(other)["again_in_s"] == 2.0
    assert other.levelname == "ERROR"
    assert other.exc_info
