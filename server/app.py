"""The composition root: which store, graph, model and jobs the services talk to. Nothing is global.

What costs a process or a second is opened on first need: a search starts no graph server, a graph
query loads no model. The truth store is opened at once, as every call reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import plait.models.embedding
from etl.project import Projector
from etl.truth import open as open_truth
from graph.server.embedded import has_data
from plait import settings as plait_settings
from plait.domain import failpoint
from plait.domain.deadline import Deadline
from plait.domain.errors import GraphUpdating, PlaitError
from plait.domain.scope import Scope
from plait.domain.values import ItemId
from plait.models import language
from plait.models.embedding.cache import CachedProvider
from plait.ports import (
    EmbeddingProvider,
    GraphStore,
    LanguageModel,
    Reranker,
)
from plait.retrieval.memory_query import MemoryQueryService
from plait.retrieval.recall import RecallService
from plait.retrieval.search import SearchService
from plait.retrieval.search_context import Deps
from plait.settings import Settings
from server.answers import Answers
from server.background_jobs.code_order import CodeOrder
from server.background_jobs.code_vectors import CodeVectors
from server.background_jobs.collect import Collector
from server.background_jobs.embedder import Embedder
from server.background_jobs.follow import Follower
from server.background_jobs.index_jobs import Jobs
from server.background_jobs.retention import Retention
from server.background_jobs.store_log import LogShortener
from server.background_jobs.warm import Warmer
from server.grpc.calls_in_progress import Calls
from server.masking import Masking
from server.process.lazy import Lazy
from server.process.wakes import Wake
from server.stores import Stores

if TYPE_CHECKING:
    from vector.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")

RESTART_S = 5.0
LEVEL_LOOK_S = 0.02  # how often a question that waits for the graph looks at it
PARTIAL_GRAPHS = 2  # read at once
OLD_COMMIT_S = 10.0  # how long a store that is back may take to answer the commits sent before


class App:
    """One server's parts. Made by `open_app`."""

    def __init__(
        self,
        settings: Settings,
        truth: Store,
        graph: Lazy[GraphStore],
        provider: Lazy[EmbeddingProvider],
        reranker: Lazy[Reranker] | None = None,
        chat: Lazy[LanguageModel] | None = None,
        *,
        background: bool,
        tell: Callable[[Wake], None] | None = None,
    ) -> None:
        self.settings = settings
        self._tell = tell  # of a worker: who runs the jobs in the background
        self.masking = Masking(settings.secrets.rules)
        self.background = background  # a projector runs all the time
        self.truth = truth
        self.graph = graph
        self.provider = provider
        self._reranker = reranker
        deps = Deps(
            store=truth.search,
            provider=provider,
            settings=settings.search,
            recall=settings.recall,
            relations=truth.relations,
            impact=truth.impact,
            receipts=truth.recalls,
            reranker=reranker,
            language=chat,
            rerank_settings=settings.rerank,
            language_settings=settings.language,
            tiers=settings.embedding.tiers,
            foresee=self._foresee,
            touch=self._touch,
        )
        self.deps = deps  # of what is asked without a pipeline
        self.search = SearchService.over(deps)
        self.answers = Answers(settings.search.cache_bytes)
        # Questions that each may read a million edges of a graph that is too large to be kept.
        self.partial_graphs = asyncio.Semaphore(PARTIAL_GRAPHS)
        self.recall = RecallService(deps)
        self.memory_query = MemoryQueryService(deps, truth.memories)
        self.projector = Projector(truth.outbox, graph.open, self._graph_is_wanted)
        self._order = CodeOrder(truth.search, truth.relations)
        self.code_vectors = CodeVectors(
            truth.vectors, provider, settings.index.batch_items, self._order
        )
        self.jobs = Jobs(settings, truth, self._published, self.code_vectors)
        follow_s = settings.index.follow_s if background else 0.0
        self.follower = Follower(settings.server, follow_s, truth.repositories, self.jobs)
        self.embedder = Embedder(
            truth.vectors, truth.memories, truth.repositories, truth.search, provider
        )
        self.retention = Retention(settings.memory, truth.retention, self.written)
        self.started_at = datetime.now(UTC)
        self.calls = Calls()
        self.stores = Stores(truth, graph, self._end_old_commits)
        graph.on_need = self.stores.need_graph
        self._graph_asked = False  # by Cypher, since it was opened last
        graph.on_close = self._graph_rests
        self._commits: set[asyncio.Task[Any]] = set()
        self._projecting: asyncio.Task[int] | None = None

    async def commit(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end even if the caller goes away: a write is done whole or not begun.

        `settle` waits for what is still running.
        """
        task = asyncio.ensure_future(work)
        self._commits.add(task)
        task.add_done_callback(self._committed)
        with self.stores.waited_for(set()):
            return await asyncio.shield(task)

    async def _end_old_commits(self) -> None:
        """The store is back: what was sent to it before it fell silent, and has no answer soon, gets
        none. Its caller has gone, and a repeat under its request id finds what was stored."""
        self.answers.clear()  # what was not on disk yet is gone, and its version may come again
        old = set(self._commits)
        asyncio.get_running_loop().call_later(OLD_COMMIT_S, lambda: [task.cancel() for task in old])

    def _committed(self, task: asyncio.Task[Any]) -> None:
        self._commits.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            # Retrieved here, so that a commit whose caller has gone doesn't end as a warning.
            logger.debug("a write failed", extra={"error": str(exc)})

    def written(self, repos: Collection[str], scopes: Collection[Scope] = ()) -> None:
        """What agents keep was just committed in `repos`: the graph, the vectors and, for `scopes`,
        retention follow."""
        if self._tell is not None:
            self._tell(Wake.of(repos, scopes))
            return
        self.embedder.add(repos)
        if self.background:
            self.retention.add(scopes)
        self.project_soon()

    def woken(self, wake: Wake) -> None:
        """A worker of this service wrote, asks for the graph, or touched code."""
        if wake.touched is not None:
            self._order.touch(*wake.touched)
            return
        self.written(wake.repos, wake.scopes)
        if wake.published:
            self._published()
        if wake.level:
            self.level_soon()

    def worker_lost(self) -> None:
        """What a worker wrote last was maybe not told: look for it."""
        self.embedder.look_again()
        self.project_soon()

    def _published(self) -> None:
        """A revision was published: what episodes touch in it is settled, and an open graph follows."""
        if self._tell is not None:
            self._tell(Wake(published=True))
            return
        self.code_vectors.wake()
        self.project_soon()

    def _foresee(self, text: str) -> None:
        provider = self.provider.opened
        if isinstance(provider, CachedProvider):
            provider.begin(text)

    def _touch(self, repo: str, ids: Sequence[ItemId]) -> None:
        """A search came upon code that may lack its vectors: it gets them before the rest."""
        if self._tell is not None:
            self._tell(Wake.touching(repo, ids))
        else:
            self._order.touch(repo, ids)

    def _graph_rests(self) -> None:
        self._graph_asked = False

    async def clear_caches(self) -> None:
        """Hot queries and answers may hold words that were just forgotten."""
        self.answers.clear()
        if self.provider.is_open:
            provider = await self.provider()
            if isinstance(provider, CachedProvider):
                provider.clear()

    def _graph_is_wanted(self) -> bool:
        """Whether the graph follows what is written. An external one always does; the embedded one while it
        runs, which is from the first Cypher until it rests: its start costs more than most index runs."""
        always = bool(self.settings.graph.uri) or self.settings.graph.follow
        return always or self._graph_asked or self.graph.is_open

    @property
    def graph_is_empty(self) -> bool:
        """Whether an embedded graph was never made: nothing can be in its files."""
        return not self.settings.graph.uri and not has_data(self.settings.home)

    def level_soon(self) -> None:
        """Bring the graph up to date in the background, started if need be."""
        if self._tell is not None:
            self._tell(Wake(level=True))
            return
        self._graph_asked = True
        self.project_soon()

    def remove_soon(self) -> None:
        """Something was removed: the graph's files must not keep it until somebody asks."""
        if self.graph_is_empty:
            self.project_soon()
        else:
            self.level_soon()

    async def graph_holds(self, repos: Sequence[str], deadline: Deadline) -> None:
        """Wait until the embedded graph holds what is published and written of `repos` (all when empty) by
        now. One that is not there yet, or that nobody asked for a while, is brought level in the
        background, whether the caller waits or not.

        Raises: GraphUpdating, when the deadline is too short for that.
        """
        if self.settings.graph.uri and self.background:
            return
        outbox = self.truth.outbox
        last = await outbox.last_event()
        while await outbox.behind(repos, last):
            self.level_soon()
            # Half of what is left is for the read itself.
            if deadline.left_s <= 2 * LEVEL_LOOK_S:
                waiting = await outbox.waiting(repos)
                names = ", ".join(sorted(repos)) or "all repositories"
                raise GraphUpdating(
                    f"the graph server starts with the first Cypher and is being brought level with what was "
                    f"indexed and stored since: {waiting:,} changes of {names} wait, and the deadline of "
                    f"{deadline.limit_s:g} s is too short for them; it goes on in the background, so ask again "
                    "in a moment, or allow more time (`--timeout`)",
                    repositories=names,
                    waiting=waiting,
                    limit_s=deadline.limit_s,
                )
            await asyncio.sleep(LEVEL_LOOK_S)

    def project_soon(self) -> None:
        """Bring the graph up to date in the background, if it is wanted and nobody is at it."""
        if self._tell is not None:
            self._tell(Wake())
            return
        if self.background:
            self.projector.wake()
            return
        if self._projecting is None or self._projecting.done():
            work = (
                self.projector.run_until_idle if self._graph_is_wanted() else self.projector.settle
            )
            self._projecting = asyncio.ensure_future(work())
            self._projecting.add_done_callback(_log_failure)

    @property
    def heavy(self) -> tuple[Lazy[Any] | Answers, ...]:
        """What takes memory or a process and can be had anew: the graph, models, answers."""
        found = (self.graph, self.provider, self._reranker, self.answers)
        return tuple(one for one in found if one is not None)

    @property
    def busy(self) -> bool:
        """Whether anything is being answered, written, indexed, projected or embedded."""
        return bool(
            self.calls.in_flight
            or self.calls.streams
            or self._commits
            or self.jobs.running
            or self.projector.at_work
            or self.embedder.at_work
            or self.code_vectors.at_work
            or (self._projecting is not None and not self._projecting.done())
        )

    async def settle(self) -> None:
        """Wait for writes whose callers have gone, and for the projection that runs."""
        pending = {*self._commits, *([self._projecting] if self._projecting else [])}
        if pending:
            await asyncio.wait(pending)


def _log_failure(task: asyncio.Task[int]) -> None:
    if task.cancelled() or (exc := task.exception()) is None:
        return
    reason = exc.reason if isinstance(exc, PlaitError) else "INTERNAL"
    logger.warning("projection failed", extra={"reason": reason, "error": str(exc)})


@asynccontextmanager
async def open_app(
    settings: Settings, *, background: bool, tell: Callable[[Wake], None] | None = None
) -> AsyncIterator[App]:
    """Open the truth store and what hangs on it; close all of it in the reverse order.

    `background`: keep projecting for as long as the app is open. Without it (a command line's own
    server) a graph query or an episode projects what waits, once. `tell`: of a worker, whose first process runs the
    jobs in the background; it is told what they need to know.

    Raises: StoreUnavailable, SchemaMismatch, EmbeddedServerFailed.
    """

    async def open_graph() -> GraphStore:
        import graph  # the Bolt driver costs 100 ms, which a search need not pay

        return await graph.open(settings)

    async def open_provider() -> EmbeddingProvider:
        return await plait.models.embedding.open(settings.embedding)

    failpoint.arm(plait_settings.failpoints())
    async with AsyncExitStack() as stack:
        truth = await open_truth(settings)
        stack.push_async_callback(truth.close)
        graph_store, provider = Lazy(open_graph), Lazy(open_provider)
        stack.push_async_callback(graph_store.close)
        stack.push_async_callback(provider.close)
        reranker, chat = _lazy_reranker(settings), _lazy_language(settings)
        if reranker is not None:
            stack.push_async_callback(reranker.close)
        if chat is not None:
            stack.push_async_callback(chat.close)
        app = App(
            settings, truth, graph_store, provider, reranker, chat, background=background, tell=tell
        )
        stack.push_async_callback(app.stores.close)
        stack.push_async_callback(app.retention.close)
        stack.push_async_callback(app.settle)
        stack.push_async_callback(app.code_vectors.close)
        stack.push_async_callback(app.jobs.close)
        stack.push_async_callback(app.follower.close)
        if not background:
            # What a short-lived server wrote gets its vectors before it ends, if they are few.
            stack.push_async_callback(app.embedder.finish)
            yield app
            return
        stop = asyncio.Event()
        for name, work in (
            ("projector", partial(_project_forever, app)),
            ("embedder", app.embedder.run_forever),
            ("code vectors", app.code_vectors.run_forever),
            ("retention", app.retention.run_forever),
            ("collector", Collector(truth.recalls).run_forever),
            ("log", LogShortener(truth, lambda: app.busy).run_forever),
            ("warmer", Warmer(truth.repositories, truth.search, truth.relations).run_forever),
        ):
            loop = asyncio.create_task(work(stop), name=name)
            stack.push_async_callback(_stop, loop, stop)
        yield app


def _lazy_reranker(settings: Settings) -> Lazy[Reranker] | None:
    """None: no model is configured, and its stage has nothing to do."""
    if not language.wants_reranker(settings.rerank):
        return None
    return Lazy(partial(language.open_reranker, settings.rerank))


def _lazy_language(settings: Settings) -> Lazy[LanguageModel] | None:
    """As `_lazy_reranker`."""
    if not language.wants_model(settings.language):
        return None
    return Lazy(partial(language.open_model, settings.language))


async def _project_forever(app: App, stop: asyncio.Event) -> None:
    """The projector's loop, begun again after a fault that it doesn't know how to wait out."""
    while not stop.is_set():
        try:
            await app.projector.run_forever(stop)
        except Exception:  # the graph would stay as it is until the next start, in silence
            logger.exception("projector failed", extra={"again_in_s": RESTART_S})
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RESTART_S)


async def _stop(loop: asyncio.Task[None], stop: asyncio.Event) -> None:
    """Let a loop end the batch it is at; what is left is the next start's work."""
    stop.set()
    done, _ = await asyncio.wait({loop}, timeout=5.0)
    if not done:
        loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
