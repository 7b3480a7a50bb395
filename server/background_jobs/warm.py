"""What the first recalls would wait for, made ready behind a server's start: the tokenizer's tables, and
the code graphs of the repositories, again with each revision that is published."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from plait.domain.errors import PlaitError
from plait.domain.values import Revision
from plait.ports import View
from plait.text import token_count
from server.background_jobs.code_graphs import CodeGraphs, Graphs, Views

logger = logging.getLogger(__name__)

EVERY_S = 10.0
# Of a store with thousands of repositories only those somebody works on are worth the memory.
MOST = 20
# One graph after another, so that a start leaves a core to the calls.
LONGEST_S = 120.0


class Tenants(Protocol):
    """What this needs of a `RepositoryStore`."""

    async def tenants(self) -> Sequence[str]: ...


class Warmer:
    """Reads each revision's graph once; what the store's cache lets go later is the next recall's to read."""

    def __init__(
        self,
        repositories: Tenants,
        search: Views,
        relations: Graphs,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._repositories = repositories
        self._graphs = CodeGraphs(search, relations, LONGEST_S)
        self._every_s = every_s
        self._seen: dict[str, int] = {}  # repository → the last revision that was read

    async def run_forever(self, stop: asyncio.Event) -> None:
        """Until `stop` is set. Errors are logged once each time: nothing depends on this."""
        await asyncio.to_thread(token_count.count, "warm")
        stopping = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                try:
                    await self.read_new(stop)
                except PlaitError as exc:
                    extra = {"reason": exc.reason, "error": str(exc), "again_in_s": self._every_s}
                    logger.warning("code graphs were not read ahead", extra=extra)
                except Exception:  # the loop must outlive a fault; recalls read for themselves
                    logger.exception("code graphs were not read ahead")
                await asyncio.wait({stopping}, timeout=self._every_s)
        finally:
            stopping.cancel()

    async def read_new(self, stop: asyncio.Event | None = None) -> list[str]:
        """Read the graphs of revisions that were not read yet; the repositories, in that order."""
        done = []
        for view, revision in await self._new():
            if stop is not None and stop.is_set():
                break
            self._seen[revision.repo] = revision.number
            await self._graphs.at(view, revision.repo)
            done.append(revision.repo)
        return done

    async def _new(self) -> list[tuple[View, Revision]]:
        """Of all tenants, at most `MOST`; the one that was published last comes last, so that a full cache
        keeps it."""
        found = []
        for tenant in await self._repositories.tenants():
            view = await self._graphs.all_of(tenant)
            found += [(view, r) for r in view.revisions if r.number and r.published_at]
        found.sort(key=lambda one: (one[1].published_at, one[1].repo))
        return [(v, r) for v, r in found[-MOST:] if self._seen.get(r.repo) != r.number]
