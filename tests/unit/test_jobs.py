"""Watching an index job: whoever watches, however slowly, gets its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from etl.pipeline import IndexRequest
from plait.domain.errors import IndexJobUnknown
from plait.settings import load
from server.background_jobs.index_jobs import Job, JobProgress, Jobs, JobState
from tests.processes import LIMIT_S

ID = "job"


@pytest.fixture
def jobs() -> Jobs:
    """With one job, which only the test changes."""
    none: Any = None
    out = Jobs(load(environ={}), none, none, none)
    out._jobs[ID] = Job(ID, IndexRequest(Path("/nowhere")), "r", JobState.RUNNING)
    return out


async def soon(stream: AsyncIterator[Job]) -> Job:
    return await asyncio.wait_for(anext(stream), LIMIT_S)


async def test_an_end_that_comes_while_the_watcher_is_busy_is_told(jobs: Jobs) -> None:
    stream = jobs.watch(ID)
    assert (await soon(stream)).state is JobState.RUNNING
    jobs.update(ID, state=JobState.SUCCEEDED)
    assert (await soon(stream)).state is JobState.SUCCEEDED
    with pytest.raises(StopAsyncIteration):
        await soon(stream)


async def test_a_change_that_comes_while_the_watcher_is_busy_is_told(jobs: Jobs) -> None:
    stream = jobs.watch(ID)
    await soon(stream)
    jobs.update(ID, progress=JobProgress("parse", 1, 2))
    assert (await soon(stream)).progress.done == 1


async def test_an_end_that_is_waited_for_wakes_every_watcher(jobs: Jobs) -> None:
    async def states() -> list[JobState]:
        return [job.state async for job in jobs.watch(ID)]

    watchers = [asyncio.create_task(states()) for _ in range(3)]
    await asyncio.sleep(0)
    jobs.update(ID, state=JobState.FAILED)
    for told in await asyncio.wait_for(asyncio.gather(*watchers), LIMIT_S):
        assert told == [JobState.RUNNING, JobState.FAILED]


async def test_an_ended_job_is_told_once(jobs: Jobs) -> None:
    jobs.update(ID, state=JobState.CANCELLED)
    assert [job.state async for job in jobs.watch(ID)] == [JobState.CANCELLED]
    with pytest.raises(IndexJobUnknown):
        await soon(jobs.watch("another"))
