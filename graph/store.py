"""The graph store: what `graph.open` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from graph import contents, counting, moments, schema
from graph.bolt import Bolt, Endpoint
from graph.dialect import Dialect
from graph.guard.rules import Guarded, Limits, guard
from graph.reader import LostMidway, Reader
from graph.server.endings import Endings, Replace
from graph.server.probes import Safety
from graph.writer import Writer
from plait.domain.deadline import Deadline
from plait.domain.errors import ResultTooLarge, StoreUnavailable
from plait.domain.memory import NOW, AsOf
from plait.ports import GraphContents, GraphDelta, GraphResult

if TYPE_CHECKING:
    from graph.server.embedded import GraphLease
    from plait.settings import Settings

T = TypeVar("T")

# Waits before each lookup of the embedded server. One that was just killed counts as alive until the
# signal arrives, so the first lookup may still find it.
MOVES_S = (0.0, 0.2, 1.0)


async def open_store(settings: Settings) -> CypherStore:
    """Raises: StoreUnavailable, EmbeddedServerFailed, BadSettings, SchemaMismatch."""
    lease: GraphLease | None = None
    if not settings.graph.uri:
        from graph.server import embedded

        lease = await asyncio.to_thread(embedded.ensure, settings)
    store = CypherStore(settings, lease)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


class CypherStore:
    """Satisfies `plait.ports.GraphStore` on Neo4j and ArcadeDB. Made by `open_store`."""

    dialect: Dialect

    def __init__(self, settings: Settings, lease: GraphLease | None) -> None:
        self._settings = settings
        self._lease = lease
        self._moving = asyncio.Lock()
        self._suspects = asyncio.Lock()
        self._bolt = Bolt(self._endpoint())

    def _endpoint(self) -> Endpoint:
        if self._lease is None:
            return Endpoint.external(self._settings)
        return Endpoint(
            uri=self._lease.uri,
            writer=self._lease.writer,
            reader=self._lease.reader,
            database=self._lease.database,
            connect_timeout_s=self._settings.graph.connect_timeout_s,
            stays=False,
        )

    async def open(self) -> None:
        """Greet the server, the next one if the leased one is dying."""
        await self._following(lambda: self._start(self._bolt))

    async def _start(self, bolt: Bolt) -> None:
        """Greet the server at `bolt`, bring its schema up to date, and use it from then on: in one step, so
        that no caller sees the drivers of two servers mixed."""
        self.dialect = await bolt.greet()
        await schema.migrate(bolt)
        self._bolt = bolt
        graph = self._settings.graph
        self._endings = Endings(lambda: bolt.users, bolt.database, self._replace())
        self._users = Reader(
            lambda: bolt.users,
            bolt.database,
            self.dialect,
            self._endings,
            max_bytes=graph.max_result_bytes,
        )
        self._safety = Safety(self._bolt, self.dialect)
        self._limits = Limits(aggregate_predicates=not self.dialect.broken_aggregate_predicates)

    async def apply(self, delta: GraphDelta) -> None:
        """See `GraphStore`. Raises: StoreUnavailable, StoreFull, InvalidInput."""

        async def work() -> None:
            await Writer(self._bolt, attempts=self._settings.index.max_attempts).apply(delta)

        await self._following(work)

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
        """See `GraphStore`. Raises, besides: UnsafeGraphStore, StoreUnavailable."""
        parameters = moments.bound(cypher, parameters, as_of)
        guarded = guard(cypher, parameters, self._limits, repos=repos)
        return await self._run(guarded, max_rows=max_rows, deadline=deadline)

    async def _run(self, guarded: Guarded, *, max_rows: int, deadline: Deadline) -> GraphResult:
        """Queries that ran while the embedded server died are retried one at a time: this separates the query
        that kills it, which then does so at most twice, from those that merely ran beside it."""
        suspected = False

        async def once() -> GraphResult:
            await self._safety.check()
            return await self._users.run(
                guarded.text, guarded.parameters, max_rows=max_rows, deadline=deadline
            )

        async def work() -> GraphResult:
            nonlocal suspected
            if not suspected:
                try:
                    return await once()
                except LostMidway:
                    suspected = self._lease is not None
                    raise
            async with self._suspects:
                try:
                    return await once()
                except LostMidway as exc:
                    raise ResultTooLarge(
                        "the graph server ended twice while it ran this query, most likely for lack of "
                        "memory; match less, or aggregate before ORDER BY and DISTINCT"
                    ) from exc

        result = await self._following(work)
        return replace(result, capped_hops=guarded.capped_hops)

    def _replace(self) -> Replace | None:
        """How the server that is there now is killed when a query will not end; None: it is not ours."""
        lease = self._lease
        if lease is None or (server := lease.server) is None:
            return None

        async def kill() -> bool:
            return await asyncio.to_thread(lease.kill, server)

        return kill

    async def contents(self, repo: str) -> GraphContents:
        return await self._following(lambda: contents.contents(self._bolt, repo))

    async def counts(self, repo: str = "") -> Mapping[str, int]:
        return await self._following(lambda: counting.counts(self._bolt, repo))

    async def ping(self) -> None:
        """One round trip. Raises: StoreUnavailable, EmbeddedServerFailed."""
        await self._bolt.ping()

    async def refreshed(self) -> None:
        """The server answers again after it did not: connections from before are closed, and what waits
        on them fails."""
        async with self._moving:
            old, new = self._bolt, Bolt(self._endpoint())
            try:
                await self._start(new)
            except BaseException:
                await new.close()
                raise
            finally:
                await old.close()

    async def close(self) -> None:
        """Leave the server; twice is fine."""
        if hasattr(self, "_reader"):
            await self._endings.close()
        await self._bolt.close()
        if self._lease is not None:
            await asyncio.to_thread(self._lease.close)

    async def _following(self, work: Callable[[], Awaitable[T]]) -> T:
        """`work()`, again when the embedded server has died and comes back elsewhere."""
        for pause_s in MOVES_S:
            bolt = self._bolt
            try:
                return await work()
            except StoreUnavailable:
                if self._lease is None:
                    raise
                # A server whose disk is full answers, but fails at every write.
                self._lease.check_space()
            await asyncio.sleep(pause_s)
            with suppress(StoreUnavailable):
                await self._move(bolt)
        return await work()

    async def _move(self, old: Bolt) -> None:
        """Follow the embedded server to its new port, unless another task did so already."""
        async with self._moving:
            if self._bolt is not old or self._lease is None:
                return
            await asyncio.to_thread(self._lease.refresh)
            new = Bolt(self._endpoint())
            try:
                await self._start(new)
            except BaseException:
                await new.close()
                raise
            await old.close()
