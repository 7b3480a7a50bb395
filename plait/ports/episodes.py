"""The primary store: agents' episodes, in the form that the core prepares for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from plait.domain.errors import RequestIdReused
from plait.domain.ids import new_item_ids
from plait.domain.values import (
    Collection,
    Episode,
    EpisodeReceipt,
    ItemId,
)
from plait.text.diff import Diff, Hunk
from plait.text.mentions import Mentions
from plait.text.test_results import TestRun


@dataclass(frozen=True, slots=True)
class NumberedEpisode:
    """An episode with its assigned ids; `items` and `evidence` in the order of artifacts and evidence."""

    episode: Episode
    id: UUID
    items: tuple[ItemId, ...]
    evidence: tuple[UUID, ...]


def number(episodes: Sequence[Episode]) -> list[NumberedEpisode]:
    """Ids ascend over all of `episodes`, in their order."""
    ids = iter(new_item_ids(sum(1 + len(e.artifacts) + len(e.evidence) for e in episodes)))
    return [
        NumberedEpisode(
            episode,
            next(ids),
            tuple(next(ids) for _ in episode.artifacts),
            tuple(next(ids) for _ in episode.evidence),
        )
        for episode in episodes
    ]


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The text of one item for lexical search and embedding."""

    id: ItemId
    collection: Collection
    text: str


@dataclass(frozen=True, slots=True)
class EpisodeNode:
    """A node of the graph; `name` is its id without the repository."""

    name: str
    label: str
    title: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class EpisodeEdge:
    """An edge of the graph for which an episode is the evidence."""

    relation: str
    source: str
    target: str
    path: str = ""
    resolver: str = ""
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class EpisodeLinks:
    """Nodes and edges of an episode; `diffs` and `runs` by the place of their artifact in the episode."""

    nodes: tuple[EpisodeNode, ...] = ()
    edges: tuple[EpisodeEdge, ...] = ()
    diffs: Mapping[int, Diff] = field(default_factory=dict)
    runs: Mapping[int, Sequence[TestRun]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """One artifact. `hash`: of its indexed text; equal ones share a vector. `mentions`: the code that its
    text names; None if it names none, or if its text is no evidence."""

    id: ItemId
    collection: Collection
    kind: str
    hash: bytes
    path: str
    symbol: str
    source: str  # agent, user, system
    meta: Mapping[str, Any]
    content: str
    tokens: int = 0  # of a memory's text; 0: not counted
    is_question: bool = False  # a memory that is nothing but a question
    announces_step: bool = False  # an agent's memory about what it will do next
    mentions: Mentions | None = None


@dataclass(frozen=True, slots=True)
class PreparedHunk:
    item: ItemId
    ordinal: int  # within its item
    path: str
    hunk: Hunk


@dataclass(frozen=True, slots=True)
class PreparedResult:
    """One result of a test. `name`: of the test, as it is looked up in the index; "" where none is named."""

    item: ItemId
    ordinal: int  # within the episode
    reported: str
    name: str
    status: str
    took_ms: float | None


@dataclass(frozen=True, slots=True)
class PreparedEpisode:
    """An episode as a store writes it, without the number of its repository and the recording time.
    Texts contain only characters that every store accepts (`plait.text.storable`)."""

    episode: Episode
    id: UUID
    context: str  # prefix of each item's indexed text
    items: tuple[PreparedItem, ...]
    hunks: tuple[PreparedHunk, ...]
    results: tuple[PreparedResult, ...]
    evidence: tuple[UUID, ...]
    nodes: tuple[EpisodeNode, ...]
    edges: tuple[EpisodeEdge, ...]
    changed: frozenset[str]  # files that its own diffs change, by their old and new paths


class EpisodeStore(Protocol):
    async def append(self, episode: Episode) -> EpisodeReceipt:
        """Store an episode, its items, its outbox row and its answer in one transaction.

        Raises: RequestIdReused, when the request id was stored with another body hash.
        """
        ...

    async def append_many(
        self, episodes: Sequence[Episode]
    ) -> list[EpisodeReceipt | RequestIdReused]:
        """As `append` for each, in that order, up to 500 items a transaction. One that reuses a
        request id has its error in its place; the others are stored."""
        ...
