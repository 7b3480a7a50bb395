"""From the primary store to the graph: events and the change of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from plait.domain.graph import Edge, Link, Node


@dataclass(frozen=True, slots=True)
class GraphDelta:
    """What one outbox event changes in the graph, in an order that can be cut into batches.

    Apply in this order: delete `drop_edges` (each by relation, source and target: exactly these, since
    an edge may belong to another file than its source does, as VALIDATED_BY and `repo CONTAINS file`
    do), delete `drop_nodes` with whatever edges are left on them, write `nodes` (an id that exists is
    updated in place and keeps its edges), write `edges` (each is new or was dropped just before).
    `fresh`: the aggregate has nothing in the graph yet, so CREATE will do.

    A delta of the memory layer (`number` 0) says how its nodes and links are now, so it may be applied
    again, and may differ when it is made again. `fence` grows with every claim of the repository's
    events: a graph that has seen a larger one rejects smaller ones. 0: not guarded.
    """

    event_id: int
    repo: str
    number: int  # the revision the graph shows once all is applied; 0 for an episode
    fresh: bool
    drop_edges: Sequence[Edge]
    drop_nodes: Sequence[str]
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    links: Sequence[Link] = ()  # written last: created, or by `Link.id` updated in place
    remove_repo: bool = False
    properties: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # extra, by node id
    drop_links: Sequence[Link] = ()  # by relation, source and id, before `drop_nodes`
    recorded_from: int = 0  # ms since 1970: when revision `number` was published
    fence: int = 0
    attempt: int = 1  # number of this attempt, from 1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    event_id: int
    repo: str
    kind: str
    attempts: int
    cause: str
    died_at: datetime


@dataclass(frozen=True, slots=True)
class GraphContents:
    """A repository's part of the graph, to be compared: by node id a digest of what the node holds,
    and each edge's `(relation, source, target, link id or 0)` with a digest of its properties.
    Times at which something was written to the graph are in no digest."""

    nodes: Mapping[str, bytes]
    edges: Mapping[tuple[str, str, str, int], bytes]


class Outbox(Protocol):
    """Events that wait to be projected; claims are leases that a dead claimer loses."""

    async def claim(self) -> GraphDelta | None:
        """The oldest event that can run now (one at a time for each repository), or None.

        Marks the repository's graph as changing, see `epoch`.
        """
        ...

    async def done(self, event_id: int) -> None:
        """The graph holds the event: mark it, and the repository's graph as steady."""
        ...

    async def release(self, event_id: int) -> None:
        """Release the claim: its event waits for the next one, as if the claimer had died."""
        ...

    async def failed(self, event_id: int, cause: str, *, permanent: bool) -> bool:
        """Release the claim for a later try, or move it to the dead letters with its cause. Of several
        events in one delta only the failing one becomes a dead letter: the delta is split in two, to be
        claimed again at once; then the result is True."""
        ...

    async def settle(self) -> int:
        """Decide, without a graph, what new episodes and new revisions leave open: which functions a hunk
        touches, which test a result is of, and the links that follow. In how many repositories there was
        something. Projecting does it too; a repository that is being projected is left out. Safe to repeat."""
        ...

    async def shorten(self, most: int = ...) -> int:
        """Where so much waits that the difference costs more than all of it (over `most` events, or more
        parts of old revisions than the published one has): forget the difference; the next projection
        removes the repository from the graph and makes it anew. How many repositories. The rows that
        were kept for the difference go with the next collection of garbage."""
        ...

    async def last_event(self) -> int:
        """The newest event's number, for `behind`; 0: none waits."""
        ...

    async def behind(self, repos: Sequence[str], last: int) -> bool:
        """Whether the graph of `repos` (all when empty) lacks an event up to `last`, or code that was
        published since."""
        ...

    async def waiting(self, repos: Sequence[str] = ()) -> int:
        """Events not yet projected, of `repos` or of all."""
        ...

    async def epoch(self, repos: Sequence[str]) -> tuple[int, bool]:
        """`(number, changing)` over `repos` (all when empty): a reader whose query ran between two
        equal epochs with `changing` False saw one state of the graph."""
        ...

    async def expected(self, repo: str) -> GraphContents:
        """What the graph has to hold of `repo` now that nothing of it waits. Raises:
        RepositoryNotIndexed."""
        ...

    async def dead(self, repos: Sequence[str]) -> list[DeadLetter]:
        """Dead letters, oldest first."""
        ...

    async def revive(self, repos: Sequence[str]) -> int:
        """Queue dead letters again; how many."""
        ...

    async def reset(self, repo: str) -> None:
        """Queue a full projection of the published revision, as after the loss of the graph."""
        ...
