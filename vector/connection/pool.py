"""Connections: an autocommit pool for each role, dedicated connections for locks, retries of whole
transactions.

`Database` works as the owner of the schema. `Scoped` works as the role `plait_app`, which row security
holds to one tenant at a time: whatever a statement says, other tenants' rows are not there.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, OperationalError, sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from plait.domain.errors import PlaitError, StoreUnavailable
from plait.domain.outage import patience
from plait.settings import Settings
from vector.connection import arrays, halfvec
from vector.connection.errors import is_transient, translated
from vector.connection.warm import WarmPool

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Candidates taken from HNSW for each one wanted: `relaxed_order` returns them a little out of order.
OVER_FETCH = 1.25
Connection = AsyncConnection[tuple[Any, ...]]
Cursor = AsyncCursor[tuple[Any, ...]]
Columns = tuple[tuple[str, str], ...]  # names and types of what is copied in

# First wait up to 50 ms, then doubling: a restart of the embedded server takes 0.3 s.
BACKOFF = wait_random_exponential(multiplier=0.05, max=5.0)
RECONNECT_S = 2.0


# Serving works as this role; vector/sql/0003_row_security.sql says what it may see.
APP_ROLE = "plait_app"
_SET_TENANT = "SELECT set_config('plait.tenant', %s, false)"


class PooledConnection(AsyncConnection[tuple[Any, ...]]):
    """A connection that knows whose rows it shows; "" when that is not known."""

    tenant: str = ""


class Database:
    """One PostgreSQL database as Plait uses it. `schemas`: where the extensions' operators live.
    `role`: what its connections become, "" for the owner that logged in.

    `revive` is called, in a thread, after a connection was lost; it waits for the server and returns
    where it is now (the embedded server may have been started anew).
    """

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        schemas: tuple[str, ...] = ("public",),
        revive: Callable[[], str] | None = None,
        role: str = "",
    ) -> None:
        self.settings = settings
        self._role = role
        self.timeout_s = settings.postgres.statement_timeout_s
        self._dsn = dsn
        self._revive = revive
        self._schemas = schemas
        self._pool: WarmPool[PooledConnection] = WarmPool(
            self._current_dsn,
            connection_class=PooledConnection,
            # A pool that is not in autocommit costs 2 to 2.8 times the CPU a read.
            kwargs={"autocommit": True, "prepare_threshold": 2, **self._connect_arguments()},
            configure=self._configure,
            min_size=1,
            max_size=settings.postgres.pool_size,
            # Each connection is a process of PostgreSQL with 5 to 10 MB. One is closed each time this has
            # passed without a need for it: a server at rest keeps one a pool.
            max_idle=15.0,
            timeout=settings.postgres.connect_timeout_s,
            # Who needs a connection has it tried anew. The pool's own tries, in the background, grow so far
            # apart that a server which is back would wait a minute for the next one.
            reconnect_timeout=RECONNECT_S,
            open=False,
            name=role or "plait",
        )

    async def _current_dsn(self) -> str:
        return self._dsn

    def _connect_arguments(self) -> dict[str, Any]:
        return {
            "connect_timeout": max(2, round(self.settings.postgres.connect_timeout_s)),
            "application_name": "plait",
        }

    async def _configure(self, conn: Connection) -> None:
        """Settle a new connection once, so that no query pays for its settings."""
        halfvec.register(conn)
        arrays.register(conn)
        path = sql.SQL(", ").join(sql.Identifier(s) for s in ("plait", *self._schemas))
        await conn.execute(
            sql.SQL(
                "SET search_path = {path}; SET statement_timeout = {timeout}; "
                "SET hnsw.ef_search = {ef}; SET hnsw.iterative_scan = 'relaxed_order'; SET jit = off"
            ).format(
                path=path,
                timeout=sql.Literal(round(self.timeout_s * 1000)),
                ef=sql.Literal(_ef_search(self.settings)),
            )
        )
        if self._role:
            await conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(self._role)))

    async def open(self) -> None:
        """Raises: StoreUnavailable, when no connection comes within `postgres.connect_timeout_s`."""
        with translated():
            await self._pool.open(wait=True, timeout=self.settings.postgres.connect_timeout_s)

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def connection(self, tenant: str = "") -> AsyncIterator[Connection]:
        """A pooled connection in autocommit that answers; driver errors leave as Plait's.

        A server that was restarted leaves dead connections in the pool. Reads find out by failing and
        are repeated (`rows`); here one more round trip does, since what follows may not be repeatable.
        """
        try:
            with translated(self.timeout_s):
                async with self._pool.connection() as conn:
                    if await _answers(conn):
                        await self._enter(conn, tenant)
                        yield conn
                        return
                await self._recover()
                async with self._pool.connection() as conn:
                    await self._enter(conn, tenant)
                    yield conn
        except StoreUnavailable as exc:
            await self._blame(exc)
            raise

    async def _enter(self, conn: PooledConnection, tenant: str) -> None:
        """Show `tenant` its rows. Before the transaction, so that no rollback takes it back."""
        if bool(self._role) != bool(tenant):
            raise RuntimeError("the application's role works for one tenant, the owner for none")
        if tenant and conn.tenant != tenant:
            conn.tenant = ""  # until the server has said yes
            await conn.execute(_SET_TENANT, (tenant,))
            conn.tenant = tenant

    @asynccontextmanager
    async def transaction(
        self, tenant: str = "", *, durable: bool = True
    ) -> AsyncIterator[Connection]:
        """One transaction. `durable` False: its commit does not wait for the disk; a later durable
        commit covers it, since the log is written in order."""
        async with self.connection(tenant) as conn, conn.transaction():
            if not durable:
                await conn.execute("SET LOCAL synchronous_commit = off")
            yield conn

    async def dedicated(self) -> Connection:
        """A connection outside the pool, for session locks; the caller closes it. Tried again while the
        embedded server, which died a moment ago or is dying, comes back, and by a run with patience."""
        if self._revive is None and patience() is None:
            return await self._connect()
        return await self.retry(lambda _: self._connect())

    async def _connect(self) -> Connection:
        with translated():
            conn = await AsyncConnection.connect(
                self._dsn, autocommit=True, **self._connect_arguments()
            )
            try:
                await self._configure(conn)
            except BaseException:
                await conn.close()
                raise
            return conn

    async def ping(self) -> None:
        """One round trip over a fresh connection: what a pool's connections still do, a server that takes
        no new ones does too. Raises: StoreUnavailable, EmbeddedServerFailed."""
        try:
            conn = await self._connect()
        except StoreUnavailable:
            if self._revive is None:
                raise
            self._dsn = await asyncio.to_thread(self._revive)
            conn = await self._connect()
        await conn.close()

    async def refreshed(self) -> None:
        """The server is back: no connection from before is handed out again, and none is waited for."""
        if self._revive is not None:
            self._dsn = await asyncio.to_thread(self._revive)
        await self._pool.drain()
        await self._pool.check()

    async def rows(
        self,
        query: sql.SQL | sql.Composed | str,
        params: Mapping[str, Any],
        tenant: str = "",
        prepare: bool | None = None,
    ) -> list[tuple[Any, ...]]:
        """All rows of one read, tried again when the connection was lost. `prepare`: False plans it anew
        for these very values at each call, None leaves that to the driver and the server."""

        try:
            # Straight first: tenacity's bookkeeping costs as much as a point read.
            return await self._read(query, params, tenant, prepare)
        except PlaitError as exc:
            waits = patience() is not None and isinstance(exc, StoreUnavailable)
            if not is_transient(exc) and not waits:
                await self._blame(exc)
                raise
            await self._recover()
        return await self.retry(lambda _: self._read(query, params, tenant, prepare))

    async def _read(
        self,
        query: sql.SQL | sql.Composed | str,
        params: Mapping[str, Any],
        tenant: str,
        prepare: bool | None,
    ) -> list[tuple[Any, ...]]:
        with translated(self.timeout_s):
            async with self._pool.connection() as conn:
                await self._enter(conn, tenant)
                # Binary: UUIDs and postings need no parsing, 1.2 ms of CPU less a search.
                # As bytes: a statement is put together from our own parts, which no type can say of a `str`.
                statement = query.encode() if isinstance(query, str) else query
                cursor = await conn.execute(statement, params, binary=True, prepare=prepare)
                return await cursor.fetchall()

    async def retry(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """Run `attempt(number)`, from 1, until it ends or fails for good: exponential backoff with
        jitter round a whole idempotent transaction, for transient errors only.

        An attempt after the first must allow for the first having been committed: a connection can be
        lost between COMMIT and its answer. A run with patience (`plait.domain.outage`) goes on for as long
        as that lasts.
        """
        number = 0

        async def tried() -> T:
            nonlocal number
            number += 1
            if number == 1:
                return await self._tried(attempt, 0)
            await self._recover()
            return await self._tried(attempt, number)

        if (waits := patience()) is not None:
            return await waits.through(tried)
        return await self._tried(attempt, 0)

    async def _tried(self, attempt: Callable[[int], Awaitable[T]], before: int) -> T:
        """As `retry`, a few times within seconds; `before`: how many attempts there may have been."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(is_transient),
            wait=BACKOFF,
            stop=stop_after_attempt(self.settings.index.max_attempts),
            reraise=True,
            before_sleep=self._before_sleep,
        )
        async for trial in retrying:
            with trial:
                return await attempt(before + trial.retry_state.attempt_number)
        raise AssertionError("tenacity ends by returning or raising")

    async def _before_sleep(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        logger.info(
            "trying a transaction again",
            extra={"attempt": state.attempt_number, "error": str(error)},
        )
        await self._recover()

    async def _blame(self, exc: PlaitError) -> None:
        """Raise why the embedded server is gone, a full disk say: its keeper knows, the pool does not."""
        if self._revive is not None and isinstance(exc.__cause__, PoolTimeout):
            self._dsn = await asyncio.to_thread(self._revive)

    async def _recover(self) -> None:
        """One lost connection often means that all of them are: drop the dead ones now."""
        if self._revive is not None:
            self._dsn = await asyncio.to_thread(self._revive)
        if self._pool.closed:  # not opened yet: nothing in it is lost
            return
        try:
            async with asyncio.timeout(self.settings.postgres.connect_timeout_s):
                await self._pool.check()
        except TimeoutError:  # it takes connections and answers nothing: the next try finds that
            logger.warning("PostgreSQL does not answer", extra={"pool": self._pool.name})


class Scoped:
    """The same database as the role `plait_app`: every read and write names its tenant, and row
    security shows it no other's rows."""

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        schemas: tuple[str, ...] = ("public",),
        revive: Callable[[], str] | None = None,
    ) -> None:
        self._db = Database(dsn, settings, schemas, revive, APP_ROLE)
        self.settings = settings

    async def open(self) -> None:
        """As `Database.open`."""
        await self._db.open()

    async def close(self) -> None:
        await self._db.close()

    async def refreshed(self) -> None:
        """As `Database.refreshed`."""
        await self._db.refreshed()

    def connection(self, tenant: str) -> AbstractAsyncContextManager[Connection]:
        """As `Database.connection`, for one tenant."""
        return self._db.connection(tenant)

    def transaction(
        self, tenant: str, *, durable: bool = True
    ) -> AbstractAsyncContextManager[Connection]:
        """As `Database.transaction`, for one tenant."""
        return self._db.transaction(tenant, durable=durable)

    async def rows(
        self,
        query: sql.SQL | sql.Composed | str,
        params: Mapping[str, Any],
        *,
        tenant: str,
        prepare: bool | None = None,
    ) -> list[tuple[Any, ...]]:
        """As `Database.rows`, for one tenant."""
        return await self._db.rows(query, params, tenant, prepare)

    async def retry(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """As `Database.retry`."""
        return await self._db.retry(attempt)


def _ef_search(settings: Settings) -> int:
    """At least what one pass over the index has to yield: a second pass doubles what is read."""
    needed = math.ceil(OVER_FETCH * settings.search.candidates)
    return min(1000, max(settings.search.ef_search, needed))  # 1000: pgvector's own limit


async def _answers(conn: Connection) -> bool:
    try:
        await AsyncConnectionPool.check_connection(conn)
    except OperationalError:
        return False
    return True


async def copy_rows(
    conn: Connection,
    table: str,
    columns: Columns,
    rows: list[tuple[Any, ...]],
) -> None:
    """Append `rows` by binary COPY; `columns` are `(name, type)`."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(table), sql.SQL(", ").join(sql.Identifier(name) for name, _ in columns)
    )
    async with conn.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types([kind for _, kind in columns])
        for row in rows:
            await copy.write_row(row)
