"""What the stages hand on, what they may ask, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

from plait.domain.deadline import Deadline
from plait.domain.values import Candidate, Hit, Item, ItemId, Timing
from plait.ports import EmbeddingProvider, Place, SearchStore, View
from plait.retrieval.query import Analysis, Mode, SearchQuery
from plait.settings import SearchSettings


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that an answer lacks, and why: an error's reason, or a short word."""

    part: str  # semantic, lexical, identifiers, phrase
    cause: str

    def __str__(self) -> str:
        return f"{self.part}: {self.cause}"


@dataclass(frozen=True, slots=True)
class Deps:
    """What stages may ask. `provider` is awaited at each use, so that it may open itself late."""

    store: SearchStore
    provider: Callable[[], Awaitable[EmbeddingProvider]]
    settings: SearchSettings


@dataclass(frozen=True, slots=True)
class SearchContext:
    """One search on its way through the stages; each returns a changed copy."""

    query: SearchQuery
    asked: Analysis
    k: int
    fusion: str
    deadline: Deadline
    view: View | None = None
    rankings: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    fused: Mapping[ItemId, float] = field(default_factory=dict)
    order: Sequence[ItemId] = ()
    places: Mapping[ItemId, Place] = field(default_factory=dict)
    signals: Mapping[ItemId, Mapping[str, float]] = field(default_factory=dict)  # for `explain`
    items: Mapping[ItemId, Item] = field(default_factory=dict)
    hits: tuple[Hit, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    timings: tuple[Timing, ...] = ()

    @property
    def at(self) -> View:
        """The revisions this search reads, once `resolve` has run."""
        if self.view is None:
            raise RuntimeError("`resolve` must run before this stage")
        return self.view


@dataclass(frozen=True, slots=True)
class Stage:
    """One decision. `calls_model`: left out of `Mode.FAST`."""

    run: Callable[[SearchContext, Deps], Awaitable[SearchContext]]
    calls_model: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__


def plan(mode: Mode, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages that `mode` runs: fast is the same tuple without calls to a language model."""
    return tuple(s for s in stages if mode is Mode.FULL or not s.calls_model)


async def run(ctx: SearchContext, deps: Deps, stages: Sequence[Stage]) -> SearchContext:
    """Run `stages` in order and time each one. Raises: DeadlineExceeded, between two of them."""
    timings = []
    for stage in stages:
        ctx.deadline.check("the search")
        start = perf_counter()
        ctx = await stage.run(ctx, deps)
        timings.append(Timing(stage.name, (perf_counter() - start) * 1e3))
    return replace(ctx, timings=tuple(timings))
