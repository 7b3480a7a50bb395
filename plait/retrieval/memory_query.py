"""QueryMemories: the stages of a search over the collection of memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from msgspec import structs

from plait.domain.deadline import Deadline
from plait.domain.errors import InvalidInput
from plait.domain.memory import (
    AsOf,
    MemoryFilter,
    MemoryMatch,
    MemoryQueryOptions,
    check_filter,
)
from plait.domain.values import Collection, Filter
from plait.ports import MemoryStore
from plait.retrieval.query.analysis import MAX_K, NO_TEXT, Mode, SearchQuery, analyse
from plait.retrieval.runner import plan, run
from plait.retrieval.search_context import Degraded, Deps, SearchContext, Stage
from plait.retrieval.stages import STAGES
from plait.retrieval.stages.format import arm_scores

# Candidates of each arm for one requested match, so that an item in the middle of both rankings can win.
OVER_FETCH = 4
Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """Matches best first. `degraded` empty: every arm ran, over every memory."""

    matches: tuple[MemoryMatch, ...]
    degraded: tuple[Degraded, ...] = ()


class MemoryQueryService:
    """Answers memory queries over one `Deps` with the stages of search, except the last (`format`): matches are memory
    entries, not hits."""

    def __init__(self, deps: Deps, memories: MemoryStore, stages: Sequence[Stage] = STAGES) -> None:
        self._deps = deps
        self._memories = memories
        self._stages = tuple(stage for stage in stages if stage.name != "format")

    async def query(
        self,
        text: str,
        vector: Vector | None,
        options: MemoryQueryOptions,
        deadline: Deadline | None = None,
    ) -> MemoryAnswer:
        """The memories that answer `text`, best first. `vector`: the query's own, of shape (dim,), in place
        of the model's; with one `text` may be empty. Scores, in [0, 1], are comparable inside one answer.

        Raises:
            ScopeMissing: the filter names no repository.
            InvalidInput: the query is empty or too long, or a number is out of range.
            EmbeddingModelMismatch: the index holds another model's vectors.
            DeadlineExceeded: no arm answered in time.
        """
        _check(text, vector, options)
        # Before the arms run: a memory embedded meanwhile is reported as waiting rather than missed.
        waiting = await self._memories.unembedded(options)
        ctx = self._context(text, vector, options, deadline)
        ctx = await run(ctx, self._over(options.top_k), plan(Mode.FAST, self._stages))
        return MemoryAnswer(await self._matches(ctx, options), _degraded(ctx, waiting))

    def _context(
        self,
        text: str,
        vector: Vector | None,
        options: MemoryQueryOptions,
        deadline: Deadline | None,
    ) -> SearchContext:
        where = in_memories(options.filter, options.as_of)
        query = SearchQuery(text, where, options.top_k, options.min_score)
        settings = self._deps.settings
        return SearchContext(
            query=query,
            analysis=analyse(query) if text.strip() else NO_TEXT,
            k=options.top_k,
            fusion=settings.fusion,
            deadline=deadline or Deadline.after(settings.timeout_s),
            vector=vector,
        )

    def _over(self, top_k: int) -> Deps:
        """`Deps` with enough candidates in each arm for `top_k`."""
        settings = self._deps.settings
        candidates = max(settings.candidates, OVER_FETCH * top_k)
        return replace(self._deps, settings=structs.replace(settings, candidates=candidates))

    async def _matches(
        self, ctx: SearchContext, options: MemoryQueryOptions
    ) -> tuple[MemoryMatch, ...]:
        best = [id_ for id_ in ctx.order if ctx.fused[id_] >= options.min_score][: options.top_k]
        entries = await self._memories.versions(options.filter.tenant, best, options.as_of)
        arms = arm_scores(ctx, best)
        return tuple(MemoryMatch(entry, ctx.fused[i], arms[i]) for i, entry in entries.items())


def in_memories(where: MemoryFilter, as_of: AsOf) -> Filter:
    """`where` as a filter of items. A repository without stored memories is no error."""
    return Filter(
        repos=where.repos,
        collections=(Collection.MEMORIES,),
        kinds=where.kinds,
        tags_any=where.tags_any,
        tags_all=where.tags_all,
        agent_id=where.agent_id,
        session_key=where.session_key,
        tenant=where.tenant,
        as_of=as_of,
        all_repos=where.all_repos,
        skip_unknown=True,
        sources=where.sources,
        types=where.types,
        importance_min=where.importance_min,
        created_after=where.created_after,
        created_before=where.created_before,
    )


def _check(text: str, vector: Vector | None, options: MemoryQueryOptions) -> None:
    check_filter(options.filter)
    if not text.strip() and vector is None:
        raise InvalidInput("the query is empty; say what to look for", field="query")
    if not 1 <= options.top_k <= MAX_K:
        raise InvalidInput(f"top_k is {options.top_k}; use 1 to {MAX_K}", field="top_k")
    if not 0.0 <= options.min_score <= 1.0:
        raise InvalidInput(f"min_score is {options.min_score}; use 0 to 1", field="min_score")


def _degraded(ctx: SearchContext, waiting: bool) -> tuple[Degraded, ...]:
    """The degraded parts. That no memory has a vector yet is reported like that some have none: if and only if a memory
    is `waiting` for its vector."""
    found = [one for one in ctx.degraded if one != Degraded("semantic", "no_vectors")]
    if waiting and not any(one.part == "semantic" for one in found):
        found.append(Degraded("semantic", "coverage"))
    return tuple(found)
