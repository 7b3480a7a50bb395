"""The two stores as calls meet them: which of them a call needs, and which one kept it waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from plait.domain.errors import GraphUnavailable, PlaitError, StoreUnavailable
from server.watch import BLAME_S, Watch

# What the call that is being answered has asked for; None outside of calls.
_needs: ContextVar[set[str] | None] = ContextVar("needs", default=None)

GRAPH = "graph"
# A wait of this long, or a quarter of what a call has, is reason to look; most calls end sooner.
SLOW_S = 0.5


class Answering(Protocol):
    """A store that can be asked whether it answers, and told that it is back after it was away."""

    async def ping(self) -> None: ...
    async def refreshed(self) -> None: ...


class Opening(Protocol):
    """What this needs of the graph store, which is opened on first need."""

    @property
    def opened(self) -> Answering | None: ...
    @property
    def opening_s(self) -> float: ...


def begin_call() -> set[str]:
    """What the call that this task answers asks for, as it grows."""
    needs: set[str] = set()
    _needs.set(needs)
    return needs


class _Wait:
    """One call's wait. Once it is long, the stores that it needs are watched until it ends."""

    def __init__(self, stores: Stores, needs: set[str], slow_s: float) -> None:
        self._stores = stores
        self._needs = needs
        self._slow_s = slow_s
        self._wanted: list[Watch] = []
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(slow_s, self._look)

    def _look(self) -> None:
        self._want(self._stores.truth)
        if GRAPH in self._needs:
            self._want(self._stores.graph)
        else:  # it may need it later
            self._timer = self._loop.call_later(self._slow_s, self._look)

    def _want(self, watch: Watch) -> None:
        if watch not in self._wanted:
            self._wanted.append(watch)
            watch.want()

    def end(self) -> None:
        self._timer.cancel()
        for watch in self._wanted:
            watch.unwant()


class Stores:
    """`truth` and `graph` are watched while calls wait."""

    def __init__(
        self, truth: Answering, graph: Opening, back: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        async def truth_is_back() -> None:
            await truth.refreshed()
            if back is not None:
                await back()

        self._opening = graph
        self.truth = Watch("PostgreSQL", StoreUnavailable, truth.ping, truth_is_back)
        self.graph = Watch(
            "the graph server", GraphUnavailable, self._ask_graph, self._graph_is_back
        )

    async def _ask_graph(self) -> None:
        if (store := self._opening.opened) is not None:
            await store.ping()

    async def _graph_is_back(self) -> None:
        if (store := self._opening.opened) is not None:
            await store.refreshed()

    @contextmanager
    def waited_for(self, needs: set[str], limit_s: float = 4 * SLOW_S) -> Iterator[None]:
        """A call waits in the block, which may take `limit_s`: once it is long, look who is silent."""
        wait = _Wait(self, needs, min(SLOW_S, limit_s / 4))
        try:
            yield
        finally:
            wait.end()

    def need_graph(self) -> None:
        """The graph is needed. Raises: GraphUnavailable, to calls, while it is known to be away."""
        needs = _needs.get()
        if needs is None:
            return
        needs.add(GRAPH)
        if (away := self.graph.away) is not None:
            raise away

    def to_blame(self, needs: set[str]) -> PlaitError | None:
        """The store that kept a call waiting which needed `needs`; None when all answer."""
        if (silent := self.truth.silent) is not None:
            return silent
        if GRAPH not in needs:
            return None
        if (silent := self.graph.silent) is not None:
            return silent
        if self._opening.opened is None and self._opening.opening_s >= BLAME_S:
            return GraphUnavailable(
                f"the graph server is being started, or looked for, since {self._opening.opening_s:.1f} s; "
                "try again in a moment",
                store=self.graph.name,
                opening_s=round(self._opening.opening_s, 1),
            )
        return None

    async def close(self) -> None:
        await asyncio.gather(self.truth.close(), self.graph.close())
