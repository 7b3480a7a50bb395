"""Two logins at one Bolt server: one that writes, one for users' Cypher; driver errors translated."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from neo4j import (
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncManagedTransaction,
    NotificationMinimumSeverity,
)
from neo4j.exceptions import (
    AuthError,
    ClientError,
    ConfigurationError,
    DatabaseUnavailable,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
    wait_random,
)

from graph import dialect
from plait.domain.errors import (
    BadSettings,
    GraphConflict,
    GraphUnavailable,
    GraphUpdating,
    StoreFull,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from plait.settings import Settings

T = TypeVar("T")
Rows = list[list[Any]]
Statement = tuple[str, Mapping[str, Any]]

# A login in an address, which the driver takes none of and no message shows.
LOGIN = re.compile(r"//[^@/\s]*@")
# What a lost connection looks like; the transaction may or may not have been committed.
LOST = (ServiceUnavailable, SessionExpired, DatabaseUnavailable)
GONE = (*LOST, DriverError, OSError, asyncio.IncompleteReadError)
# A record that a statement had found was deleted before it came to read it. ArcadeDB's readers see every
# delete at once, and Neo4j's read-committed transactions may.
_DELETED_MEANWHILE = "Neo.ClientError.Statement.EntityNotFound"
# A busy machine deletes for long, and a read of much meets it again and again.
_REREAD_S = 8.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is and who we are there. Passwords: never log this.

    `stays`: a server that is away comes back at the same address, so it pays to ask there for long. The
    embedded one comes back on another port, which only its lease knows.
    """

    uri: str
    writer: tuple[str, str]
    reader: tuple[str, str]
    database: str
    connect_timeout_s: float
    stays: bool = True
    # Where users' Cypher runs, where that is another server with the same graph; "": at `uri`.
    reader_uri: str = ""

    @classmethod
    def external(cls, settings: Settings) -> Endpoint:
        """Raises: BadSettings, for a `graph.uri` without a password or with an unknown scheme."""
        graph = settings.graph
        password = graph.password.get_secret_value()
        if not password:
            raise BadSettings(
                "`graph.uri` is set and `graph.password` is empty; set PLAIT_GRAPH__PASSWORD",
                key="graph.password",
            )
        writer = (graph.user, password)
        reader = (graph.reader_user, graph.reader_password.get_secret_value())
        return cls(
            uri=graph.uri,
            writer=writer,
            reader=reader if graph.reader_user else writer,
            database=graph.database,
            connect_timeout_s=graph.connect_timeout_s,
            reader_uri=graph.reader_uri,
        )


class Bolt:
    """The drivers of one endpoint. `close` it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.database = endpoint.database or None
        self._writer = _driver(endpoint, endpoint.writer)
        self._reader: AsyncDriver | None = None
        self._users: AsyncDriver | None = None

    @property
    def reader(self) -> AsyncDriver:
        """The reader's login. Opened on first use: an index run reads none."""
        if self._reader is None:
            self._reader = _driver(self.endpoint, self.endpoint.reader)
        return self._reader

    @property
    def users(self) -> AsyncDriver:
        """For users' Cypher: `reader`, or the server that is there for it."""
        uri = self.endpoint.reader_uri
        if not uri:
            return self.reader
        if self._users is None:
            self._users = _driver(replace(self.endpoint, uri=uri), self.endpoint.reader)
        return self._users

    async def greet(self) -> dialect.Dialect:
        """Connect, run one real query, and say what answered. Raises: StoreUnavailable, BadSettings."""
        with translated("graph"):
            info = await self._writer.get_server_info()
            await self.read("RETURN 1 AS one")
        return dialect.of_agent(info.agent)

    async def write(self, *statements: Statement) -> list[Rows]:
        """Run `statements` in one managed transaction: retried as a whole on TransientError.

        Raises: StoreUnavailable, once the connection is lost: whether it was committed is not known.
        """

        async def work(tx: AsyncManagedTransaction) -> list[Rows]:
            return [await (await tx.run(text, dict(given))).values() for text, given in statements]

        return await self.transact(work)

    async def transact(self, work: Callable[[AsyncManagedTransaction], Awaitable[T]]) -> T:
        """`work(tx)` as a managed write transaction; see `write`."""
        with translated("graph"):
            async with self._writer.session(database=self.database) as session:
                return await session.execute_write(work)

    async def read(self, text: str, /, **given: Any) -> Rows:
        """One read by the writer's login, for Plait's own queries; retried while its data is
        being deleted.

        Raises: GraphUpdating, when every try met a deletion; StoreUnavailable.
        """

        async def work(tx: AsyncManagedTransaction) -> Rows:
            return await (await tx.run(text, given)).values()

        async for attempt in rereading():
            with attempt, translated("graph"):
                async with self._writer.session(database=self.database) as session:
                    return await session.execute_read(work)
        raise AssertionError("unreachable")

    async def ping(self) -> None:
        """One round trip over a connection of its own. Raises: GraphUnavailable."""
        fresh = _driver(self.endpoint, self.endpoint.writer)
        try:
            with translated("graph"):
                async with fresh.session(database=self.database) as session:
                    await (await session.run("RETURN 1 AS one")).consume()
        finally:
            await fresh.close()

    async def define(self, text: str) -> None:
        """Run one schema statement; schema and data never share a transaction on Neo4j."""
        await self.write((text, {}))

    async def close(self) -> None:
        await self._writer.close()
        if self._reader is not None:
            await self._reader.close()
        if self._users is not None:
            await self._users.close()


def _driver(endpoint: Endpoint, login: tuple[str, str]) -> AsyncDriver:
    try:
        return AsyncGraphDatabase.driver(
            endpoint.uri,
            auth=login,
            user_agent="plait",
            connection_timeout=endpoint.connect_timeout_s,
            connection_acquisition_timeout=endpoint.connect_timeout_s,
            max_transaction_retry_time=15.0 if endpoint.stays else 1.0,
            # The driver's own first wait is a second: nine tenths of what a conflict costs.
            initial_retry_delay=0.1,
            notifications_min_severity=NotificationMinimumSeverity.OFF,
        )
    except (ConfigurationError, ValueError) as exc:
        problem = LOGIN.sub("//", f"{endpoint.uri!r} is not a Bolt address: {exc}")
        raise BadSettings(
            f"`graph.uri` {problem}; write bolt://host:7687, or neo4j+s://host for a cluster with TLS",
            key="graph.uri",
        ) from exc


def retrying(attempts: int, *, stays: bool) -> AsyncRetrying:
    """Exponential backoff with jitter round whole idempotent work while the server is away,
    or another process is at the same place.

    Not for a lost server that does not stay where it was: it is back elsewhere within a second, and
    asking at the old address for all attempts took 25 s.
    """

    def again(exc: BaseException) -> bool:
        if isinstance(exc, StoreUnavailable):
            return stays or not isinstance(exc.__cause__, GONE)
        return isinstance(exc, GraphConflict | GraphUpdating)

    return AsyncRetrying(
        retry=retry_if_exception(again),
        wait=wait_exponential(multiplier=0.1, max=5.0) + wait_random(0, 0.25),
        stop=stop_after_attempt(attempts),
        reraise=True,
    )


def rereading(limit_s: float = math.inf) -> AsyncRetrying:
    """Again, soon, while a read meets records that are being deleted: for most of `limit_s`, and for
    seconds at most."""
    return AsyncRetrying(
        retry=retry_if_exception_type(GraphUpdating),
        wait=wait_exponential(multiplier=0.01, max=0.2) + wait_random(0, 0.01),
        stop=stop_after_delay(min(_REREAD_S, 0.8 * limit_s)),
        reraise=True,
    )


def deleted_meanwhile(exc: Neo4jError) -> bool:
    """Whether a statement failed because another transaction deleted what it was reading."""
    return exc.code == _DELETED_MEANWHILE


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Driver errors of Plait's own statements become domain errors here and nowhere else.

    Other `ClientError`s pass: they are our bugs, or errors of a user's Cypher, which the reader translates.
    """
    try:
        yield
    except AuthError as exc:
        raise BadSettings(
            "the graph server refused the login; check `graph.user` and `graph.password`",
            key="graph.password",
        ) from exc
    except LOST as exc:
        raise GraphUnavailable(f"the {what} server does not answer: {exc}; is it running?") from exc
    except TransientError as exc:
        raise GraphUnavailable(f"the {what} server is busy: {exc.message}") from exc
    except Neo4jError as exc:
        if _disk_full(exc):
            raise StoreFull(f"the disk under the {what} server is full: {exc.message}") from exc
        if deleted_meanwhile(exc):
            raise GraphUpdating(
                "what the statement reads is being deleted from the graph; try again, and if that "
                f"goes on, `plait rebuild` ({exc.message})"
            ) from exc
        if isinstance(exc, ClientError):
            raise
        raise GraphUnavailable(f"the {what} server failed: {exc.message}") from exc
    except GONE as exc:
        raise GraphUnavailable(f"the {what} server cannot be reached: {exc}") from exc


def _disk_full(exc: Neo4jError) -> bool:
    text = f"{exc.code} {exc.message}"
    return any(
        sign in text for sign in ("No space left", "DiskFull", "disk is full", "quota exceeded")
    )
