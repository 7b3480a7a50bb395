"""The context that stages pass on, their dependencies, and the type of a stage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import numpy.typing as npt

from plait.domain.copies import copier
from plait.domain.deadline import Deadline
from plait.domain.recall import Block, Dropped, Impact, PackingOptions
from plait.domain.values import Candidate, Hit, Item, ItemId, Timing
from plait.ports import (
    EmbeddingProvider,
    ImpactStore,
    ItemState,
    LanguageModel,
    Place,
    RecallStore,
    RelationStore,
    Reranker,
    SearchStore,
    View,
)
from plait.retrieval.query.analysis import Analysis, SearchQuery
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.query.strategy import Strategy
from plait.settings import LanguageSettings, RecallSettings, RerankSettings, SearchSettings


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part missing from an answer, and why: the reason of an error, or a short word."""

    part: str  # an arm or a stage
    cause: str

    def __str__(self) -> str:
        return f"{self.part}: {self.cause}"


@dataclass(frozen=True, slots=True)
class Deps:
    """Dependencies of the stages. Openers are awaited at each use, so that a model opens when first needed; None: not
    configured, and its stage returns the context unchanged."""

    store: SearchStore
    provider: Callable[[], Awaitable[EmbeddingProvider]]
    settings: SearchSettings
    recall: RecallSettings = field(default_factory=RecallSettings)
    relations: RelationStore | None = None
    impact: ImpactStore | None = None
    receipts: RecallStore | None = None
    reranker: Callable[[], Awaitable[Reranker]] | None = None
    language: Callable[[], Awaitable[LanguageModel]] | None = None
    rerank_settings: RerankSettings = field(default_factory=RerankSettings)
    language_settings: LanguageSettings = field(default_factory=LanguageSettings)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    # What code is found by (`embedding.tiers`).
    tiers: Literal["static", "both", "model"] = "model"
    # Starts embedding a text that `provider` will need soon, if the model is open.
    foresee: Callable[[str], None] = lambda text: None
    # Told, by repository, which chunks a query came upon, the best first, while some of its code lacks vectors.
    touch: Callable[[str, Sequence[ItemId]], None] = lambda repo, ids: None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`terms`: further BM25 terms with their weight beside the query's own 1.0. `passages`: what an answer
    may look like (HyDE), embedded beside the query. `by`: identifiers, or a model's name."""

    terms: Mapping[str, float] = field(default_factory=dict)
    passages: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The candidates after one stage, best first, with their scores: the source of explanations."""

    stage: str
    scores: Mapping[ItemId, float]  # in the order of rank


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The state of one search or recall between stages; each stage returns a changed copy.

    `order`: the remaining candidates, best first; `fused`: their scores. A stage that removes one records why in
    `dropped`. `factors`: by stage, factors of scores without those of 1.0; the stage `score` applies them."""

    query: SearchQuery
    analysis: Analysis
    k: int  # number of hits; for a context the most items
    fusion: str
    deadline: Deadline
    options: PackingOptions | None = None  # of a recall; None: a search for hits
    vector: npt.NDArray[np.float32] | None = (
        None  # given by the caller, of shape (dim,); None: by the model
    )
    query_vector: npt.NDArray[np.float32] | None = None  # what the arm by meaning compared with
    view: View | None = None
    anchors: Anchors = field(default_factory=Anchors)
    rewrite: Rewrite = field(default_factory=Rewrite)
    strategy: Strategy = field(default_factory=Strategy)
    rankings: Mapping[str, Sequence[Candidate]] = field(default_factory=dict)
    fused: Mapping[ItemId, float] = field(default_factory=dict)
    order: Sequence[ItemId] = ()
    places: Mapping[ItemId, Place] = field(default_factory=dict)
    item_states: Mapping[ItemId, ItemState] = field(default_factory=dict)
    first_turns: frozenset[ItemId] = frozenset()  # the best candidates that begin their session
    before: Mapping[ItemId, ItemId] = field(
        default_factory=dict
    )  # by short turn, the turn before it
    also: Mapping[ItemId, tuple[ItemId, ...]] = field(default_factory=dict)  # joined neighbours
    reasons: Mapping[ItemId, tuple[str, ...]] = field(default_factory=dict)
    factors: Mapping[str, Mapping[ItemId, float]] = field(default_factory=dict)
    signals: Mapping[ItemId, Mapping[str, float]] = field(default_factory=dict)  # for `explain`
    dropped: Mapping[ItemId, Dropped] = field(default_factory=dict)
    shown: frozenset[ItemId] = frozenset()  # left out by the session's cool-down
    items: Mapping[ItemId, Item] = field(default_factory=dict)
    impact: Impact = field(default_factory=Impact)
    hits: tuple[Hit, ...] = ()
    block: Block | None = None
    degraded: tuple[Degraded, ...] = ()
    timings: tuple[Timing, ...] = ()
    trail: tuple[Snapshot, ...] = ()

    @property
    def at(self) -> View:
        """The revisions this search reads, once `resolve` has run."""
        if self.view is None:
            raise RuntimeError("`resolve` must run before this stage")
        return self.view

    @property
    def traced(self) -> bool:
        """Whether snapshots of the stages are recorded."""
        return self.query.explain or bool(self.query.why_not)


changed = copier(SearchContext)  # as `dataclasses.replace`, but faster: a search uses it 20 times


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the pipeline.

    `calls_model`: asks a language model, so `Mode.FAST` is without it. `arm`: brings candidates; adjacent arms run
    concurrently. `needed`: cannot be switched off. `shed`: the order in
    which stages are left out when time runs short, 1 first; 0: never. `when`: whether it applies; a stage
    that does not is neither run, nor timed, nor named in `degraded`.
    """

    run: Callable[[SearchContext, Deps], Awaitable[SearchContext]]
    calls_model: bool = False
    arm: bool = False
    needed: bool = False
    shed: int = 0
    when: Callable[[SearchContext, Deps], bool] = lambda ctx, deps: True

    @property
    def name(self) -> str:
        return self.run.__name__
