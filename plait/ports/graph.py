"""The graph: written by deltas, read by guarded queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from plait.domain.answers.graph import GraphResult
from plait.domain.deadline import Deadline
from plait.domain.memory import (
    NOW,
    AsOf,
)
from plait.ports.outbox import GraphContents, GraphDelta


class GraphStore(Protocol):
    async def apply(self, delta: GraphDelta) -> None:
        """Project one event: 500-item transactions, each with its event id and batch number, so that
        a repeat after a crash resumes after the last committed batch."""
        ...

    async def query(
        self,
        cypher: str,
        parameters: Mapping[str, Any],
        *,
        max_rows: int,
        deadline: Deadline,
        as_of: AsOf = NOW,
        repos: Sequence[str] = (),
    ) -> GraphResult:
        """Run one guarded, read-only statement, restricted to the nodes of `repos` if any are given.

        It may use `$valid_as_of` and `$recorded_as_of`:
        `as_of` in ms since 1970, the time of the call by default.

        Raises: CypherRefused, CypherInvalid, DeadlineExceeded, ResultTooLarge.
        """
        ...

    async def counts(self, repo: str = "") -> Mapping[str, int]:
        """Nodes by label and edges by relation, of one repository or of all."""
        ...

    async def contents(self, repo: str) -> GraphContents:
        """All that the graph holds of `repo`, for comparison. A duplicated edge has a different digest from a
        single one."""
        ...

    async def ping(self) -> None:
        """One round trip over a fresh connection. Raises: GraphUnavailable, EmbeddedServerFailed."""
        ...

    async def refreshed(self) -> None:
        """Call when the server answers again after an outage: drops the old connections."""
        ...

    async def close(self) -> None: ...
