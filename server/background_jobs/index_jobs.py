"""Index runs asked for over the wire: one at a time, each a value that watchers see change.

A job is published when text and graph rows are; from then on the next one may run. It ends when its vectors
are there, which `code_vectors` makes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from uuid import uuid4

from etl.embed import check_model
from etl.kept import KeptRepositories
from etl.pipeline import IndexRequest, index_repository
from etl.plan import repository_name
from etl.report import IndexReport
from etl.run import Truth
from plait.domain.errors import IndexJobUnknown, PlaitError, RepositoryBusy, TooManyJobs
from plait.domain.scope import qualify
from plait.domain.values import Revision
from plait.settings import Settings
from server.background_jobs.code_vectors import CodeVectors

logger = logging.getLogger(__name__)

# A job a minute for a day, before the oldest ended ones are forgotten; and what may wait at once.
MAX_KEPT = 1440
MAX_WAITING = 64
# Watchers see a change at most this often: a parse advances thousands of times.
COALESCE_S = 0.1
# A command that indexes by itself is waited for so long, and how often it is looked whether it has ended.
BUSY_S, BUSY_AGAIN_S = 60.0, 1.0
AGAIN_S = 0.2  # until the service's own run looks whether a caller's still waits
# Between a stage's name and the store that it waits for.
WAITING = ", waiting for "


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PUBLISHED = "published"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """`total` 0: not known."""

    stage: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    id: str
    request: IndexRequest
    repo: str
    state: JobState = JobState.QUEUED
    progress: JobProgress = field(default_factory=JobProgress)
    report: IndexReport | None = None
    revision: Revision | None = None
    error: PlaitError | None = None
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_at: datetime | None = None
    ended_at: datetime | None = None


class _Reporter:
    """`etl.report.Progress` that writes into the job's value."""

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        self._jobs = jobs
        self._id = job_id

    def start(self, phase: str, total: int | None = None) -> None:
        self._jobs.update(self._id, progress=JobProgress(phase, 0, total or 0))

    def advance(self, n: int = 1) -> None:
        now = self._jobs.get(self._id).progress
        self._jobs.update(self._id, progress=replace(now, done=now.done + n))

    def waiting(self, store: str, waited_s: float) -> None:
        """The stage's name says so; what is counted goes on where it was."""
        now = self._jobs.get(self._id).progress
        stage = now.stage.partition(WAITING)[0]
        logger.warning("an index job waits", extra={"store": store, "waited_s": round(waited_s, 1)})
        if waited_s:
            stage += f"{WAITING}{store}"
        self._jobs.update(self._id, progress=replace(now, stage=stage))

    def turn(self, repo: str, most_s: float) -> None:
        """A job asks again by itself: see `Jobs`."""

    def finish(self) -> None:
        """The end is told by the job's state."""


class Jobs:
    """The jobs of one server. They live in memory: an index run is safe to repeat, so none is kept."""

    def __init__(
        self,
        settings: Settings,
        truth: Truth,
        published: Callable[[], None],
        vectors: CodeVectors,
    ) -> None:
        """`published` is called after each revision."""
        self._settings = settings
        self._truth = truth
        self._published = published
        self._vectors = vectors
        self._jobs: dict[str, Job] = {}
        self._by_request: dict[str, str] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._kept = KeptRepositories(settings.index.bindings_bytes)
        # One at a time: a run uses every core by itself.
        self._turn = asyncio.Semaphore(1)
        self._at_a_command: set[str] = set()  # jobs that a command's run is in the way of

    def start(self, request: IndexRequest, request_id: str = "") -> Job:
        """A new job; or the one of this `request_id`, or one on the repository that has yet to begin.

        One that runs is not joined: it may have read a file before the caller changed it. So while one runs,
        all that ask share the one that comes after it.

        Raises: TooManyJobs.
        """
        if request_id in self._by_request:
            return self._jobs[self._by_request[request_id]]
        repo = request.repo or request.root.name
        for job in self._jobs.values():
            if job.state is JobState.QUEUED and _covers(job.request, request, job.repo == repo):
                if request_id:
                    self._by_request[request_id] = job.id
                self.update(job.id, request=_both(job.request, request))
                return self._jobs[job.id]
        busy = sum(job.state in (JobState.QUEUED, JobState.RUNNING) for job in self._jobs.values())
        if busy >= MAX_WAITING:
            raise TooManyJobs(
                f"{busy} index jobs wait or run already; wait for one to end", jobs=busy
            )
        job = Job(uuid4().hex, request, repo)
        self._jobs[job.id] = job
        if request_id:
            self._by_request[request_id] = job.id
        self._tasks[job.id] = asyncio.create_task(self._run(job.id), name=f"index {repo}")
        self._forget_old()
        return job

    def get(self, job_id: str, tenant: str | None = None) -> Job:
        """Raises: IndexJobUnknown, also for a job of another tenant."""
        job = self._jobs.get(job_id)
        if job is None or tenant not in (None, job.request.tenant):
            raise IndexJobUnknown(job_id)
        return job

    async def watch(self, job_id: str, tenant: str | None = None) -> AsyncIterator[Job]:
        """The job now and after each change, the last one final. Raises: IndexJobUnknown."""
        job = self.get(job_id, tenant)
        yield job
        while not job.state.final:
            # What changed while the watcher was busy with the last one woke nobody.
            if self.get(job_id) is job:
                await self._changed.setdefault(job_id, asyncio.Event()).wait()
            if not self.get(job_id).state.final:
                await asyncio.sleep(COALESCE_S)
            job = self.get(job_id)
            yield job

    def update(self, job_id: str, **changes: object) -> None:
        """Replace fields of a job's value and wake its watchers."""
        self._jobs[job_id] = replace(self._jobs[job_id], **changes)  # type: ignore[arg-type]
        # A fresh event for who waits next; those who wait on this one all wake.
        if event := self._changed.pop(job_id, None):
            event.set()

    @property
    def running(self) -> bool:
        """Whether any job waits or runs."""
        return bool(self._tasks)

    async def close(self) -> None:
        """Stop what runs: a run that is cut off leaves the published revision as it was."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._kept.close()

    def rest(self, idle_s: float = 0.0) -> None:
        """Let go of what is kept of repositories that no run used for so long."""
        if not self.running:
            self._kept.drop_idle(idle_s)

    async def _run(self, job_id: str) -> None:
        try:
            report = await self._in_turn(job_id)
            revision = await self._truth.repositories.revision(report.repo)
            self.update(job_id, state=JobState.PUBLISHED, report=report, revision=revision)
            self._published()
            if self.get(job_id).request.embed and self._settings.embedding.embeds_code:
                await self._vectors.fill(report.repo, _Reporter(self, job_id))
                revision = await self._truth.repositories.revision(report.repo)
                report = replace(report, embedded=revision.embedded)
            self._end(job_id, JobState.SUCCEEDED, report=report, revision=revision)
        except PlaitError as exc:
            self._end(job_id, JobState.FAILED, error=exc)
        except asyncio.CancelledError:
            self._end(job_id, JobState.CANCELLED)
            raise
        except Exception:
            logger.exception("index job failed", extra={"job": job_id})
            message = f"internal error; the server's log has it under job {job_id}"
            self._end(job_id, JobState.FAILED, error=PlaitError(message, job_id=job_id))
        finally:
            self._tasks.pop(job_id, None)

    async def _in_turn(self, job_id: str) -> IndexReport:
        """Index when nobody else does. Who is asked for by a caller goes before runs of the service's own.

        Raises: RepositoryBusy, when a command of another process still indexes the repository after `BUSY_S`.
        """
        end = 0.0
        while True:
            async with self._turn:
                request = self.get(job_id).request
                if not (request.again and self._is_asked()):
                    self.update(job_id, state=JobState.RUNNING, started_at=datetime.now(UTC))
                    try:
                        return await self._index(job_id)
                    except RepositoryBusy:
                        end = end or time.monotonic() + BUSY_S
                        if request.again or time.monotonic() > end:
                            raise
                        self.update(job_id, state=JobState.QUEUED)
                        self._at_a_command.add(job_id)
            await asyncio.sleep(BUSY_AGAIN_S if end else AGAIN_S)
            self._at_a_command.discard(job_id)

    def _is_asked(self) -> bool:
        """Whether a caller's job waits for its turn."""
        return any(
            j.state is JobState.QUEUED and not j.request.again and j.id not in self._at_a_command
            for j in self._jobs.values()
        )

    async def _index(self, job_id: str) -> IndexReport:
        request = self.get(job_id).request
        progress = _Reporter(self, job_id)
        if request.embed and self._settings.embedding.embeds_code:
            await check_model(self._truth.vectors, self._settings.embedding)
        name = qualify(request.tenant, repository_name(request.root, request.repo))
        kept = self._kept.get(name)
        try:
            return await index_repository(
                request, self._settings, self._truth, None, None, progress, kept
            )
        finally:
            self._kept.trim()

    def _end(self, job_id: str, state: JobState, **changes: object) -> None:
        self.update(job_id, state=state, ended_at=datetime.now(UTC), **changes)

    def _forget_old(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.state.final]
        for job_id in ended[: max(0, len(self._jobs) - MAX_KEPT)]:
            del self._jobs[job_id]
        self._by_request = {r: j for r, j in self._by_request.items() if j in self._jobs}


def _covers(known: IndexRequest, asked: IndexRequest, same_name: bool) -> bool:
    """Whether the run of `known` is all that `asked` wants; the service's own runs want what any does."""
    of = (known.root, known.tenant)
    if not same_name or of != (asked.root, asked.tenant):
        return False
    how = (known.move, known.embed, known.again)
    return asked.again or how == (asked.move, asked.embed, asked.again)


def _both(known: IndexRequest, asked: IndexRequest) -> IndexRequest:
    """One run for two who ask: it looks at what either changed."""
    whole = known.touched is None or asked.touched is None
    touched = None if whole else (known.touched or frozenset()) | (asked.touched or frozenset())
    return replace(known, touched=touched, keep=known.keep or asked.keep)
