"""Search: one async pipeline over one store and one embedding provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from plait.domain.deadline import Deadline
from plait.domain.recall import Dropped
from plait.domain.values import Hit, ItemId, Timing
from plait.ports import EmbeddingProvider, SearchStore, View
from plait.retrieval import explain
from plait.retrieval.query.analysis import Mode, QueryKind, SearchQuery, analyse
from plait.retrieval.runner import plan, run, without_model
from plait.retrieval.search_context import Degraded, Deps, SearchContext, Snapshot, Stage
from plait.retrieval.stages import STAGES
from plait.settings import SearchSettings

__all__ = ["Degraded", "Mode", "QueryKind", "SearchAnswer", "SearchQuery", "SearchService"]

OpenProvider = Callable[[], Awaitable[EmbeddingProvider]]


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits best first. `degraded` empty: every arm ran, over every chunk. `why_not`: by id of
    `SearchQuery.why_not`. `trail`: the candidates stage by stage, if the query has `explain`."""

    hits: tuple[Hit, ...]
    view: View
    degraded: tuple[Degraded, ...]
    timings: tuple[Timing, ...]
    kind: QueryKind
    why_not: Mapping[ItemId, Dropped] | None = None
    trail: tuple[Snapshot, ...] = ()

    @property
    def coverage(self) -> tuple[int, int]:
        """`(chunks with a vector, all chunks)` of the revisions this answer was read at."""
        revisions = self.view.revisions
        return sum(r.embedded for r in revisions), sum(r.chunks for r in revisions)


class SearchService:
    """Searches `store`. `provider` may be a coroutine function, so that the model loads on first need.

    `over` makes one from `Deps`, which a server's search and recall share."""

    def __init__(
        self,
        store: SearchStore,
        provider: EmbeddingProvider | OpenProvider,
        settings: SearchSettings,
        stages: Sequence[Stage] = STAGES,
    ) -> None:
        self._deps = Deps(store, _opener(provider), settings)
        self._stages = tuple(stages)

    @classmethod
    def over(cls, deps: Deps, stages: Sequence[Stage] = STAGES) -> SearchService:
        service = cls(deps.store, deps.provider, deps.settings, stages)
        service._deps = deps
        return service

    async def search(self, query: SearchQuery) -> SearchAnswer:
        """Answer `query`; an arm or stage that cannot run, or not in time, is named in `degraded`.

        Raises:
            InvalidInput: the query is empty, longer than 8,192 bytes, or out of range.
            RepositoryNotIndexed: the filter names one that is not.
            EmbeddingModelMismatch: the index holds another model's vectors.
            DeadlineExceeded: no arm answered in time.
        """
        settings = self._deps.settings
        ctx = SearchContext(
            query=query,
            analysis=analyse(query),
            k=query.k or settings.k,
            fusion=query.fusion or settings.fusion,
            deadline=query.deadline or Deadline.after(settings.timeout_s),
        )
        ctx = await run(ctx, self._deps, plan(query.mode, self._stages, query.off))
        return SearchAnswer(
            ctx.hits,
            ctx.at,
            (*ctx.degraded, *without_model(query.mode, self._deps)),
            ctx.timings,
            ctx.analysis.kind,
            why_not=await explain.why_not(ctx, self._deps) if query.why_not else None,
            trail=ctx.trail,
        )


def _opener(provider: EmbeddingProvider | OpenProvider) -> OpenProvider:
    if callable(provider):
        return provider

    async def given() -> EmbeddingProvider:
        return provider

    return given
