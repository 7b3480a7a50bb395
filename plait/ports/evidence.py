"""What runs of tests prove of diffs, as values: a store reads the histories, the core decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

# Which rule made an edge (`memory_edge.resolver`).
HUNK, RUN = "hunk", "test-run"

Position = tuple[datetime, UUID, UUID]  # when the run began, episode, item: items ascend in a run


@dataclass(frozen=True, slots=True)
class Run:
    """One result of one test."""

    at: Position
    failed: bool

    @property
    def episode(self) -> UUID:
        return self.at[1]


@dataclass(frozen=True, slots=True)
class Diff:
    """A diff's node, by name (`diff/<item>/<path>`), and where it stands among the runs."""

    name: str
    path: str
    at: Position


@dataclass(frozen=True, slots=True)
class Turn:
    """A test that went from red to green between two runs. `good`: the last run before it was red."""

    owner: UUID  # the episode of the green run, which is the evidence
    test: str
    good: Run | None
    broken: Run  # the first of the red runs
    red: Run  # the last of them
    green: Run


@dataclass(frozen=True, slots=True)
class IssueLinks:
    fixed_by: Mapping[str, Sequence[str]]  # by diff: the issues that its text says it fixes
    named_in: Mapping[UUID, Sequence[str]]  # by episode: the issues that it names


class EvidenceEdge(NamedTuple):
    """An edge that `owner`, an episode, is the evidence of, before it is a row."""

    owner: UUID
    relation: str
    source: str
    target: str
    path: str = ""
    resolver: str = RUN
    confidence: float = 1.0

    @property
    def key(self) -> tuple[UUID, str, str, str]:
        return (self.owner, self.relation, self.source, self.target)


Fixing = Sequence[tuple[Turn, Sequence[Diff]]]  # each turn with the diffs that are its evidence


class EvidenceRules(Protocol):
    """Pure; `plait.memory.evidence` has them."""

    def turns(self, owner: UUID, test: str, runs: Sequence[Run]) -> Sequence[Turn]:
        """Where `owner`'s runs in a test's history, oldest first, are the first green ones."""
        ...

    def fixing(self, turns: Sequence[Turn], diffs: Sequence[Diff]) -> Fixing:
        """The diffs that turned each test, by position; turns without one are left out."""
        ...

    def edges(
        self,
        fixing: Fixing,
        diffs: Sequence[Diff],
        touched: Mapping[str, Sequence[str]],
        issues: IssueLinks,
    ) -> list[EvidenceEdge]:
        """What `fixing` proves. `touched`: functions by the name of a diff's node."""
        ...

    def strongest(
        self, edges: Sequence[EvidenceEdge]
    ) -> dict[tuple[UUID, str, str, str], EvidenceEdge]:
        """One edge a key: of the highest confidence, of equal ones the first."""
        ...
