"""Where `ingest` sends episodes, and what it is answered. Apart from the command, which `python -m` runs
under another name: its classes would be there twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from plait.domain.errors import PlaitError

if TYPE_CHECKING:
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget
    from plait.domain.values import Episode


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one episode."""

    episode_id: str
    items: int
    repeated: bool


class NotStored(Exception):
    """This episode was refused; the next one may fare better."""

    def __init__(self, error: PlaitError) -> None:
        super().__init__(str(error))
        self.error = error


class Sink(Protocol):
    """Where episodes go: the stores (etl/ingest/direct.py), or a server (server/commands/ingest.py)."""

    async def append(self, episode: Episode) -> Stored:
        """Raises: NotStored; and PlaitError, for what would meet the next episode too."""
        ...

    async def append_many(self, episodes: Sequence[Episode]) -> list[Stored | NotStored]:
        """As `append` for each, in their order, one answer each; up to 500 artifacts together are one
        transaction. One that is refused is a NotStored in its place, the others are stored.

        Raises: PlaitError, for what would meet the next batch too; the batch may be sent again whole.
        """
        ...

    async def usage(self) -> Mapping[tuple[str, str, Budget], MemoryUsage]:
        """The usage of agents' memories, by repository, agent and budget."""
        ...
