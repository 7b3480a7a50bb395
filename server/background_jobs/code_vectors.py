"""Vectors of indexed code, filled in behind a published revision: a loop beside the server's calls.

An index run ends when its text and graph rows are published, and only notes that vectors are wanted. So a run
never waits for them, one that was killed loses none, and a service that ended goes on where it was at its next
start. The vectors of what agents keep are `embedder`'s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from etl.embed import CodeOrder, fill_vectors
from etl.report import NoProgress, Progress
from plait.domain.errors import EmbeddingModelMismatch, RepositoryNotIndexed
from plait.ports import EmbeddingProvider, VectorQueue
from server.background_jobs.repeating import log_failure, pause, until_stopped

logger = logging.getLogger(__name__)

# A command that indexes tells this process nothing: the table does, one short query a look.
LOOK_S = 5.0
# Texts a round: some 0.3 s of two cores. Between two of them whoever else wants the model or the store has
# its turn; the model's own threads for documents run at low priority besides.
ROUND = 64


class _Run(NoProgress):
    """One run over a repository, and all who follow it."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self._listeners: list[Progress] = []
        self._total: int | None = None
        self._done = 0

    async def join(self, listener: Progress) -> None:
        """Follow until it ends. Raises: its error."""
        assert self.task is not None
        self._listeners.append(listener)
        if self._total is not None:
            listener.start("vectors", self._total)
            listener.advance(self._done)
        try:
            await asyncio.shield(self.task)
        finally:
            self._listeners.remove(listener)

    def start(self, phase: str, total: int | None = None) -> None:
        self._total, self._done = total, 0
        for listener in self._listeners:
            listener.start(phase, total)

    def advance(self, n: int = 1) -> None:
        self._done += n
        for listener in self._listeners:
            listener.advance(n)


class CodeVectors:
    """`provider` opens the model on first need; `batch_items`: the most texts of one transaction; `order`: which
    come first."""

    def __init__(
        self,
        vectors: VectorQueue,
        provider: Callable[[], Awaitable[EmbeddingProvider]],
        batch_items: int,
        order: CodeOrder | None = None,
    ) -> None:
        self._vectors = vectors
        self._provider = provider
        self._size = min(ROUND, batch_items)
        self._order = order
        self._woken = asyncio.Event()
        self._runs: dict[str, _Run] = {}  # by repository

    @property
    def at_work(self) -> bool:
        """Whether vectors are being made."""
        return bool(self._runs)

    def wake(self) -> None:
        """A revision was published: look at once."""
        self._woken.set()

    async def fill(self, repo: str, progress: Progress | None = None) -> None:
        """Make what `repo` lacks; returns when it has all, whoever made them. All who ask share one run, which
        goes on when they leave.

        Raises: as `etl.embed.fill_vectors`; RepositoryNotIndexed, when it is removed meanwhile.
        """
        listener = progress or NoProgress()
        # What is published as a run of others ends, that one may not have seen.
        while (run := self._runs.get(repo)) is not None:
            await run.join(listener)
        await self._begin(repo).join(listener)

    def _begin(self, repo: str) -> _Run:
        run = _Run()

        async def work() -> None:
            try:
                provider = await self._provider()
                await fill_vectors(self._vectors, provider, repo, run, self._size, self._order)
            finally:
                del self._runs[repo]

        self._runs[repo] = run
        run.task = asyncio.ensure_future(work())
        return run

    async def close(self) -> None:
        """End what runs: vectors that are missing are the next start's."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Fill what is wanted until `stop` is set. Errors are logged, and tried again later and later."""

        async def work() -> None:
            self._woken.clear()
            await self._once(stop)

        await until_stopped(stop, work, lambda: pause(self._woken, LOOK_S), _log)

    async def _once(self, stop: asyncio.Event) -> None:
        """Each repository that wants vectors now, the one with the least to do first."""
        for repo in await self._vectors.wanting():
            if repo in self._runs:
                continue
            filling = asyncio.ensure_future(self.fill(repo))
            stopped = asyncio.ensure_future(stop.wait())
            try:
                await asyncio.wait({filling, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    logger.info("vectors wait for the next start", extra={"repo": repo})
                    return
                await filling
                logger.info("vectors are complete", extra={"repo": repo})
            except RepositoryNotIndexed:
                continue  # removed meanwhile
            finally:
                stopped.cancel()
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)


def _log(exc: Exception, again_s: float) -> None:
    if isinstance(exc, EmbeddingModelMismatch):
        logger.error("vectors are not made", extra={"reason": exc.reason, "error": str(exc)})
    else:
        log_failure(logger, "vectors wait", exc, again_s)
