"""An edge that an episode is the evidence of, before it is a row."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

# Which rule made an edge (`memory_edge.resolver`).
HUNK, RUN = "hunk", "test-run"


class Claim(NamedTuple):
    """An edge that `owner`, an episode, is the evidence of."""

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
