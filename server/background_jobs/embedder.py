"""Vectors of what agents keep, made soon after it is written: a loop beside the server's calls.

A memory is durable, and found by its words, before it has a vector; so nothing here can lose one. The
vectors of code are the index run's work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from plait.domain.errors import PlaitError
from plait.domain.values import Collection as Kind
from plait.domain.values import Filter
from plait.ports import (
    EmbeddingProvider,
    MemoryStore,
    RepositoryStore,
    SearchStore,
    VectorQueue,
)
from server.background_jobs.repeating import log_failure, until_stopped

logger = logging.getLogger(__name__)

# Writes that come in a burst share a batch of the model.
DEBOUNCE_S = 0.2
ROUND = 256
# What a command's own server embeds before it ends: a second of work. The rest waits for the next
# `plait serve` or `plait index`.
FEW = 64
FINISH_S = 20.0
# So many more vectors later it is looked whether a collection has become large enough for an index.
INDEX_EVERY = 1_024


class Embedder:
    """Embeds agents' items of the repositories it is told of. `provider` opens the model on first need."""

    def __init__(
        self,
        vectors: VectorQueue,
        memories: MemoryStore,
        repositories: RepositoryStore,
        search: SearchStore,
        provider: Callable[[], Awaitable[EmbeddingProvider]],
    ) -> None:
        self._vectors = vectors
        self._memories = memories
        self._repositories = repositories
        self._search = search
        self._provider = provider
        self._waiting: set[str] = set()
        self._woken = asyncio.Event()
        self._turn = asyncio.Lock()
        self._since_look = INDEX_EVERY  # texts since it was looked; the first round does
        self._looked = False  # for what other processes left behind
        self._runs = False  # `run_forever`
        self._building: asyncio.Task[None] | None = None  # of an index, beside the rounds

    @property
    def at_work(self) -> bool:
        """Whether a batch is being embedded, or waits."""
        return self._turn.locked() or bool(self._waiting)

    def add(self, repos: Collection[str]) -> None:
        """Something was written in `repos`."""
        self._waiting |= set(repos)
        if repos:
            self._woken.set()

    def look_again(self) -> None:
        """A process that wrote is gone: what it left without vectors is looked for."""
        self._looked = False
        self._woken.set()

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Embed until `stop` is set. Errors are logged, and tried again later and later."""

        async def work() -> None:
            if not self._looked:
                self._looked = True
                self.add(await self._left_behind())
            await self.run_until_idle(stop)
            self._index_soon()

        self._runs = True
        try:
            await until_stopped(stop, work, self._rest, self._failed)
        finally:
            self._runs = False
            if self._building is not None:
                self._building.cancel()
                await asyncio.gather(self._building, return_exceptions=True)

    def _failed(self, exc: Exception, again_s: float) -> None:
        self._looked = False
        log_failure(logger, "embedding failed", exc, again_s)

    def _index_soon(self) -> None:
        """Have the vector indexes that are missing built, if enough came since the last look. No round waits for it."""
        due = self._since_look >= INDEX_EVERY
        if due and (self._building is None or self._building.done()):
            self._since_look = 0
            self._building = asyncio.create_task(self._index(), name="index of agents' vectors")

    async def _index(self) -> None:
        try:
            await self._vectors.index_agents()
        except Exception as exc:
            self._since_look = INDEX_EVERY  # the next round looks again
            log_failure(logger, "embedding failed", exc, 0.0)

    async def run_until_idle(self, stop: asyncio.Event | None = None, most: int = 0) -> int:
        """Embed what waits in the repositories told of (at most `most` texts, 0 for all); how many.

        One caller at a time: who comes second finds the first one's batch done, not under way.
        """
        async with self._turn:
            return await self._until_idle(stop, most)

    async def _until_idle(self, stop: asyncio.Event | None, most: int) -> int:
        done = 0
        while self._waiting and not (stop is not None and stop.is_set()):
            repo = min(self._waiting)
            limit = min(ROUND, most - done) if most else ROUND
            if limit <= 0:
                break
            self._waiting.discard(repo)
            try:
                count = await self._round(repo, limit)
            except BaseException:
                self._waiting.add(repo)
                raise
            done += count
            if (
                count
            ):  # there may be more: equal texts are one, so fewer than the limit tells nothing
                self._waiting.add(repo)
        return done

    async def finish(self) -> None:
        """At the end of a command's own server: embed a few; what fails waits for the next start."""
        try:
            async with asyncio.timeout(FINISH_S):
                await self.run_until_idle(most=FEW)
        except (PlaitError, TimeoutError) as exc:
            logger.warning("vectors wait for the next start", extra={"error": str(exc)})

    async def _round(self, repo: str, limit: int) -> int:
        batch = await self._vectors.pending(repo, limit)
        if not batch:
            return 0
        provider = await self._provider()
        await self._vectors.ensure_space(provider.model, provider.dim)
        vectors = await provider.embed_documents([one.text for one in batch])
        hashes = [one.content_hash for one in batch]
        await self._vectors.store_vectors(hashes, vectors)
        links = await self._memories.link_similar(repo, hashes)
        self._since_look += len(batch)
        if self._runs:
            self._index_soon()
        logger.info("embedded", extra={"repo": repo, "texts": len(batch), "links": links})
        return len(batch)

    async def _left_behind(self) -> set[str]:
        """Repositories in which an earlier process may have left texts without vectors."""
        found: set[str] = set()
        for tenant in await self._repositories.tenants():
            view = await self._search.view(Filter(tenant=tenant, collections=(Kind.MEMORIES,)))
            found |= {revision.repo for revision in view.revisions}
        return found

    async def _rest(self) -> None:
        if not self._waiting:
            self._woken.clear()
            await self._woken.wait()
        await asyncio.sleep(DEBOUNCE_S)
