"""Episodes straight into the truth store, then the graph: no server in between."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from etl.ingest.sink import NotStored, Sink, Stored
from plait.domain.errors import Conflict, InvalidInput, PlaitError
from plait.domain.outage import patience
from plait.domain.scope import qualify, unqualify

if TYPE_CHECKING:
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget
    from plait.domain.values import Episode
    from plait.ports import GraphStore
    from plait.settings import Settings
    from vector.store import Store


@asynccontextmanager
async def direct(args: argparse.Namespace) -> AsyncIterator[Sink]:
    """The truth store itself; at the end an external graph is brought up to date.

    When that fails the episodes are safe: the next projector, of any process, goes on.
    """
    from etl.project import Projector
    from etl.truth import open as open_truth
    from plait import settings as plait_settings

    tenant = getattr(args, "tenant", "")
    overrides = {"scope": {"tenant": tenant}} if tenant else {}
    settings = plait_settings.load(args.config, **overrides)
    opened: list[GraphStore] = []

    async def open_graph() -> GraphStore:
        import graph

        if not opened:
            opened.append(await graph.open(settings))
        return opened[0]

    truth = await open_truth(settings)
    try:
        yield _Direct(truth, settings)
        # The embedded graph catches up when it is asked; what needs no graph is done now.
        projector = Projector(truth.outbox, open_graph)
        rest = projector.run_until_idle if settings.graph.uri else projector.settle
        waits = patience()
        await (waits.through(rest) if waits else rest())
    finally:
        for store in opened:
            await store.close()
        await truth.close()


class _Direct:
    def __init__(self, truth: Store, settings: Settings) -> None:
        self._truth, self._tenant = truth, settings.scope.tenant
        self._memory = settings.memory

    async def append(self, episode: Episode) -> Stored:
        (answer,) = await self.append_many([episode])
        if isinstance(answer, NotStored):
            raise answer
        return answer

    async def append_many(self, episodes: Sequence[Episode]) -> list[Stored | NotStored]:
        out: list[Stored | NotStored] = []
        try:
            own = [self._own(episode) for episode in episodes]
            for answer in await self._truth.episodes.append_many(own):
                if isinstance(answer, PlaitError):
                    out.append(NotStored(answer))
                else:
                    out.append(
                        Stored(str(answer.episode_id), len(answer.item_ids), answer.repeated)
                    )
        except (Conflict, InvalidInput) as exc:
            if len(episodes) == 1:
                return [NotStored(exc)]
            # One of them is at fault: each alone. Those that were already stored are found by their request ids.
            return [answer for one in episodes for answer in await self.append_many([one])]
        return out

    def _own(self, episode: Episode) -> Episode:
        """Under the tenant's name for its repository. Raises: InvalidInput."""
        return replace(episode, repo=qualify(self._tenant, episode.repo), tenant=self._tenant)

    async def usage(self) -> Mapping[tuple[str, str, Budget], MemoryUsage]:
        from plait.domain.answers.status import MemoryUsage
        from plait.memory.retention import most_tokens

        found = await self._truth.retention.usage(self._tenant)
        return {
            (unqualify(self._tenant, repo), agent, budget): MemoryUsage(
                known.tokens, most_tokens(self._memory, budget), known.memories, known.closed
            )
            for (repo, agent, budget), known in found.items()
        }
