"""The graph store: what `graph.open` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from graph import contents, counting, moments, schema, templates
from graph.bolt import Bolt, Endpoint
from graph.dialect import Dialect
from graph.guard import Limits, guard
from graph.probes import Safety
from graph.reader import Reader
from graph.symbols import resolved
from graph.walk import walk
from graph.writer import Writer
from plait.domain.deadline import Deadline
from plait.domain.errors import StoreUnavailable
from plait.domain.memory import NOW, AsOf
from plait.ports import GraphContents, GraphDelta, GraphResult

if TYPE_CHECKING:
    from graph.embedded import GraphLease
    from plait.settings import Settings

T = TypeVar("T")

# Before each look where the embedded server is now. One that was just killed is told of as alive until
# the signal has arrived, so that the first look may find it once more.
MOVES_S = (0.0, 0.2, 1.0)


async def open_store(settings: Settings) -> CypherStore:
    """Raises: StoreUnavailable, EmbeddedServerFailed, BadSettings, SchemaMismatch."""
    lease: GraphLease | None = None
    if not settings.graph.uri:
        from graph import embedded

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
        await self._following(self._start)

    async def _start(self) -> None:
        """Greet the server and bring its schema up to date."""
        self.dialect = await self._bolt.greet()
        await schema.migrate(self._bolt)
        graph = self._settings.graph
        self._reader = Reader(self._bolt, self.dialect, max_bytes=graph.max_result_bytes)
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
    ) -> GraphResult:
        """See `GraphStore`. Raises, besides: UnsafeGraphStore, StoreUnavailable."""
        parameters = moments.bound(cypher, parameters, as_of)
        text = guard(cypher, parameters, self._limits)

        async def work() -> GraphResult:
            await self._safety.check()
            return await self._reader.run(text, parameters, max_rows=max_rows, deadline=deadline)

        return await self._following(work)

    async def template(
        self,
        name: str,
        parameters: Mapping[str, Any],
        *,
        max_rows: int,
        deadline: Deadline,
        as_of: AsOf = NOW,
    ) -> GraphResult:
        """See `GraphStore`. Raises, besides: UnknownSymbol, AmbiguousSymbol, StoreUnavailable."""
        template = templates.find(name)
        checked = template.check(parameters)

        async def work() -> GraphResult:
            given = await resolved(template, checked, self._bolt, deadline)
            given |= moments.of(template, as_of)
            if template.walk:
                return await walk(
                    template, given, self._reader, max_rows=max_rows, deadline=deadline
                )
            return await self._reader.run(
                template.text(given), given, max_rows=max_rows, deadline=deadline
            )

        return await self._following(work)

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
        old, self._bolt = self._bolt, Bolt(self._endpoint())
        try:
            await self._start()
        finally:
            await old.close()

    async def close(self) -> None:
        """Leave the server; twice is fine."""
        if hasattr(self, "_reader"):
            await self._reader.close()
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
                # A server whose disk is full answers, and fails at all it is asked to write.
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
            self._bolt = Bolt(self._endpoint())
            try:
                await self._start()
            finally:
                await old.close()
