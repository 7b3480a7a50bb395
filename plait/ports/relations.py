"""The primary store: relations in one revision of the code, and links of memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from plait.domain.graph import Link, Node
from plait.domain.values import Filter, ItemId
from plait.ports.search import View


@dataclass(frozen=True, slots=True)
class Sites:
    """Where an edge stands, and the rule that bound it; `lines` ascending, with repeats."""

    lines: tuple[int, ...]
    resolver: str


@dataclass(frozen=True, slots=True)
class CodeGraph:
    """The code graph of one revision of one repository, compact: nodes are rows, edges CSR both ways.

    `ids`: node ids without `repo:`, row → id; `row`: id → row. `out_*` are the edges by source, `in_*` by
    target: `start` has shape (n + 1,), `other` and `relation` shape (m,), `weight` is the confidence.
    `relation` is an index into `relations`, `label` into `labels`, `kind`, `language` and `name` into `words`,
    where `word` finds a text. `words` may hold more than this revision has: they grow with the next one.
    `asks` is told at which rows edges are looked for, of a graph that holds a part (`PartialGraph`).
    `qualified` has the qualified names of the nodes whose id is not theirs, by row. `edge` is an edge's
    number, the same from both sides, for `sites`. Immutable and shared: never write to an array."""

    repo: str
    revision: int
    relations: tuple[str, ...]
    labels: tuple[str, ...]
    words: Sequence[str]
    word: Mapping[str, int]
    ids: Sequence[str]
    row: Mapping[str, int]
    names: Sequence[str]
    qualified: Mapping[int, str]
    paths: Sequence[str]
    lines: npt.NDArray[np.int32]  # (n,) first lines
    end_lines: npt.NDArray[np.int32]  # (n,)
    label: npt.NDArray[np.int8]  # (n,)
    kind: npt.NDArray[np.int32]  # (n,)
    language: npt.NDArray[np.int32]  # (n,)
    name: npt.NDArray[np.int32]  # (n,)
    is_test: npt.NDArray[np.bool_]  # (n,)
    sites: Callable[[int], Sites]  # decodes them: ask for edges that are shown, not for all
    out_start: npt.NDArray[np.int64]
    out_other: npt.NDArray[np.int32]
    out_relation: npt.NDArray[np.int8]
    out_weight: npt.NDArray[np.float32]
    out_edge: npt.NDArray[np.int32]
    in_start: npt.NDArray[np.int64]
    in_other: npt.NDArray[np.int32]
    in_relation: npt.NDArray[np.int8]
    in_weight: npt.NDArray[np.float32]
    in_edge: npt.NDArray[np.int32]
    asks: Callable[[npt.NDArray[np.int32]], None] | None = None


class PartialGraph(Protocol):
    """What one question needs of a code graph that is too large to be kept whole: ask `graph`, then `complete`."""

    @property
    def graph(self) -> CodeGraph:
        """What has been read so far; it notes what it is asked for."""
        ...

    async def complete(self) -> Literal["whole", "more", "gone"]:
        """`whole`: nothing was asked of `graph` that it lacks, so what it answered is the whole graph's answer.
        `more`: what it lacked has been read, ask again. `gone`: the revision was collected.

        Raises: CodeGraphTooLarge, for a question that reaches too much of it.
        """
        ...


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """One edge that episodes and memories made, as a view sees it; both ends without `repo:`."""

    repo: str
    relation: str
    source: str
    target: str
    confidence: float
    resolver: str
    at: datetime  # when it was recorded


@dataclass(frozen=True, slots=True)
class MemoryNode:
    """An episode, diff, memory, issue or commit, as it is now. `properties`: what its label has besides the
    fields of every node; what is unknown is absent."""

    node: Node
    properties: Mapping[str, Any]


class RelationStore(Protocol):
    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        """The graph of `repo` at the view's revision. It is read once a revision, in the background, and
        cached; None if that takes longer than `wait_s` (call again later), or if it has more edges than
        `recall.max_graph_edges`; `graph_state` tells these apart."""
        ...

    def graph_state(self, view: View, repo: str) -> str:
        """ready, loading, too_large, or none (no code)."""
        ...

    async def links(
        self, view: View, ends: Sequence[tuple[str, str]], limit: int
    ) -> list[MemoryLink]:
        """Living memory-layer links with one of `ends` (repo, node id without `repo:`) as source or target,
        as of the view's times, the newest first."""
        ...

    async def items_of(
        self, view: View, ends: Sequence[tuple[str, str]], where: Filter, limit: int
    ) -> dict[tuple[str, str], list[ItemId]]:
        """Of `ends` that are diffs, memories or runs: the items behind them that `view` sees and `where`
        lets through, at most `limit` together, the newest first."""
        ...


class PartialGraphStore(Protocol):
    def partial_graph(self, view: View, repo: str) -> PartialGraph:
        """For one question of `repo`, which the view has, at the view's revision; nothing is read yet."""
        ...


class MemoryLinkStore(Protocol):
    """The primary store: what episodes and memories say, as a graph. Ends are node ids without `repo:`."""

    async def nodes(self, view: View, repo: str, names: Sequence[str]) -> Mapping[str, MemoryNode]:
        """Those of `names` (node ids without `repo:`) that are there, by name."""
        ...

    async def commits(self, view: View, repo: str, digits: str) -> list[str]:
        """Names of the commits that texts of `repo` name and whose digits begin with `digits`, in their order, at
        most 50."""
        ...

    async def links(
        self,
        view: View,
        repo: str,
        ends: Sequence[str],
        relations: Sequence[str] = (),
        *,
        into: bool,
        limit: int,
        sources: Sequence[str] = (),
    ) -> list[Link]:
        """Links of the memory layer whose target (`into`), or else source, is one of `ends`, as of the view's
        times: those recorded last, newest first, then by id. `relations` empty: of every one. `sources`: kinds of
        node (`diff`, `episode`, …) that they may come from, empty for all."""
        ...
