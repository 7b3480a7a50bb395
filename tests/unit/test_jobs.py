"""Index jobs: whoever watches, however slowly, gets the end; whoever asks gets a run that began afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etl.pipeline import IndexRequest
from etl.report import IndexReport
from plait.domain.errors import IndexJobUnknown, RepositoryBusy
from plait.domain.values import Revision
from plait.settings import load
from server.background_jobs import index_jobs
from server.background_jobs.index_jobs import Job, JobProgress, Jobs, JobState
from tests.processes import LIMIT_S

ID = "job"


@pytest.fixture
def jobs() -> Jobs:
    """With one job, which only the test changes."""
    none: Any = None
    out = Jobs(load(environ={}), none, lambda: None, none)
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


# -- who joins which run ---------------------------------------------------------------------------------


class Runs:
    """The pipeline of these tests: counts its runs, each of which waits until the test lets it go."""

    def __init__(self) -> None:
        self.begun = 0
        self.at_work: asyncio.Queue[int] = asyncio.Queue()
        self.go = asyncio.Semaphore(0)

    async def index(self, request: IndexRequest, *_: Any) -> IndexReport:
        self.begun += 1
        self.at_work.put_nowait(self.begun)
        await self.go.acquire()
        return IndexReport(request.repo, str(request.root), self.begun, changed=True)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    out = Runs()
    monkeypatch.setattr(index_jobs, "index_repository", out.index)
    return out


class Truth:
    """Of the primary store what jobs ask: the published revision."""

    repositories: Any = None

    def __init__(self) -> None:
        self.repositories = self

    async def revision(self, repo: str) -> Revision:
        return Revision(1, repo, 1)


@pytest.fixture
def queue(runs: Runs) -> Jobs:
    truth: Any = Truth()
    vectors: Any = None
    return Jobs(load(environ={}), truth, lambda: None, vectors)


A_REQUEST = IndexRequest(Path("/nowhere"), "r", embed=False)


async def until_begun(runs: Runs, count: int) -> None:
    while await asyncio.wait_for(runs.at_work.get(), LIMIT_S) < count:
        pass


async def test_a_request_during_a_run_gets_one_that_begins_after_it(
    queue: Jobs, runs: Runs
) -> None:
    first = queue.start(A_REQUEST)
    await until_begun(runs, 1)
    second = queue.start(A_REQUEST)
    assert second.id != first.id
    runs.go.release()
    await until_begun(runs, 2)
    assert queue.get(first.id).state is JobState.SUCCEEDED
    assert queue.get(second.id).state is JobState.RUNNING
    await queue.close()


async def test_all_requests_during_a_run_share_the_next_one(queue: Jobs, runs: Runs) -> None:
    queue.start(A_REQUEST)
    await until_begun(runs, 1)
    waiting = {queue.start(A_REQUEST).id for _ in range(10)}
    assert len(waiting) == 1
    for _ in range(2):
        runs.go.release()
    *_, last = [job async for job in queue.watch(waiting.pop())]
    assert (last.state, runs.begun) == (JobState.SUCCEEDED, 2)


async def test_a_request_that_wants_more_than_the_queued_one_is_its_own(
    queue: Jobs, runs: Runs
) -> None:
    queue.start(A_REQUEST)
    await until_begun(runs, 1)
    queued = queue.start(A_REQUEST)
    assert queue.start(replace(A_REQUEST, move=True)).id != queued.id
    assert queue.start(replace(A_REQUEST, root=Path("/elsewhere"))).id != queued.id
    assert queue.start(replace(A_REQUEST, tenant="acme")).id != queued.id
    await queue.close()


async def test_a_repeated_request_id_gets_its_job_though_that_runs(queue: Jobs, runs: Runs) -> None:
    first = queue.start(A_REQUEST, "one")
    await until_begun(runs, 1)
    assert queue.start(A_REQUEST, "one").id == first.id
    joined = queue.start(A_REQUEST, "two")
    assert queue.start(A_REQUEST, "two").id == joined.id != first.id
    await queue.close()


A_RUN_OF_ITS_OWN = replace(A_REQUEST, again=True)


async def test_a_run_of_the_services_own_joins_one_that_was_asked_for(
    queue: Jobs, runs: Runs
) -> None:
    queue.start(A_REQUEST)
    await until_begun(runs, 1)
    asked = queue.start(replace(A_REQUEST, embed=True))
    joined = queue.start(replace(A_RUN_OF_ITS_OWN, touched=frozenset({"a.py"})))
    assert joined.id == asked.id
    assert queue.get(asked.id).request.touched is None
    await queue.close()


async def test_who_asks_does_not_wait_for_runs_of_the_services_own_that_have_yet_to_begin(
    queue: Jobs, runs: Runs
) -> None:
    queue.start(A_REQUEST)
    await until_begun(runs, 1)
    others = [replace(A_RUN_OF_ITS_OWN, root=Path(f"/own/{n}"), repo=f"own-{n}") for n in range(3)]
    own = [queue.start(one) for one in others]
    asked = queue.start(A_REQUEST)
    runs.go.release()
    await until_begun(runs, 2)
    assert queue.get(asked.id).state is JobState.RUNNING
    for _ in range(4):
        runs.go.release()
    for one in own:
        *_, last = [job async for job in queue.watch(one.id)]
        assert last.state is JobState.SUCCEEDED
    await queue.close()


@pytest.mark.parametrize("again", [False, True])
async def test_a_command_that_indexes_is_waited_for_by_who_was_asked(
    queue: Jobs, runs: Runs, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A run of the service's own lets the command be."""
    busy = 3

    async def index(request: IndexRequest, *rest: Any) -> IndexReport:
        nonlocal busy
        busy -= 1
        if busy >= 0:
            raise RepositoryBusy(request.repo)
        return await runs.index(request, *rest)

    monkeypatch.setattr(index_jobs, "index_repository", index)
    monkeypatch.setattr(index_jobs, "BUSY_AGAIN_S", 0.0)
    runs.go.release()
    begun = queue.start(replace(A_REQUEST, again=again))
    *_, last = [job async for job in queue.watch(begun.id)]
    if again:
        assert isinstance(last.error, RepositoryBusy)
    else:
        assert last.state is JobState.SUCCEEDED
    await queue.close()


async def test_a_job_that_waits_for_a_command_holds_up_no_other_repository(
    queue: Jobs, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def index(request: IndexRequest, *rest: Any) -> IndexReport:
        if request.repo == "busy":
            raise RepositoryBusy(request.repo)
        return await runs.index(request, *rest)

    monkeypatch.setattr(index_jobs, "index_repository", index)
    monkeypatch.setattr(index_jobs, "BUSY_AGAIN_S", 600.0)
    runs.go.release()
    queue.start(replace(A_REQUEST, repo="busy"))
    own = queue.start(replace(A_REQUEST, again=True))
    async with asyncio.timeout(LIMIT_S):
        *_, last = [job async for job in queue.watch(own.id)]
    assert last.state is JobState.SUCCEEDED
    await queue.close()
