"""Run guarded Cypher: rows and bytes capped while streaming, and a deadline the server obeys too."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from neo4j import READ_ACCESS, AsyncDriver, AsyncSession, AsyncTransaction
from neo4j.exceptions import ClientError, DatabaseError, TransientError

from graph.bolt import LOST, deleted_meanwhile, rereading, translated
from graph.convert import Converter
from graph.dialect import Dialect
from graph.guard import projection
from graph.server.endings import Endings, metadata
from plait.domain.deadline import Deadline
from plait.domain.errors import CypherInvalid, DeadlineExceeded, ResultTooLarge, StoreUnavailable
from plait.ports import GraphResult

_NAMES = "UNWIND $ids AS i MATCH (n) WHERE elementId(n) = i RETURN i, n.id"
_FETCH = 200  # rows a round trip


class LostMidway(StoreUnavailable):
    """The server went away while it ran the query, perhaps because of it."""


class Reader:
    """Queries of one server by the reader's login. Text that comes here has passed the guard."""

    def __init__(
        self,
        driver: Callable[[], AsyncDriver],
        database: str | None,
        dialect: Dialect,
        endings: Endings,
        *,
        max_bytes: int,
    ) -> None:
        self._driver = driver
        self._database = database
        self._dialect = dialect
        self._endings = endings
        self._max_bytes = max_bytes

    async def run(
        self, text: str, given: Mapping[str, Any], *, max_rows: int, deadline: Deadline
    ) -> GraphResult:
        """Run the query; retried while its data is being deleted.

        Raises: CypherInvalid, DeadlineExceeded, ResultTooLarge, GraphUpdating, StoreUnavailable;
        LostMidway, when the server had begun.
        """
        deadline.check("the graph query")
        started = time.perf_counter()
        try:
            async with asyncio.timeout(deadline.left_s):
                columns, rows, converter, more = await self._reread(text, given, max_rows, deadline)
        except TimeoutError:
            raise DeadlineExceeded("the graph query", deadline.limit_s) from None
        return GraphResult(
            columns=columns,
            rows=[[converter.cell(cell) for cell in row] for row in rows],
            nodes=list(converter.nodes.values()),
            edges=list(converter.edges.values()),
            truncated=more,
            took_ms=(time.perf_counter() - started) * 1e3,
        )

    async def _reread(
        self, text: str, given: Mapping[str, Any], max_rows: int, deadline: Deadline
    ) -> tuple[tuple[str, ...], list[list[Any]], Converter, bool]:
        async for attempt in rereading(deadline.left_s):
            with attempt:
                return await self._stream(text, given, max_rows, deadline)
        raise AssertionError("unreachable")

    async def _stream(
        self, text: str, given: Mapping[str, Any], max_rows: int, deadline: Deadline
    ) -> tuple[tuple[str, ...], list[list[Any]], Converter, bool]:
        token = secrets.token_hex(8)
        with translated("graph"), _user_errors(deadline):
            session = self._driver().session(
                database=self._database, default_access_mode=READ_ACCESS, fetch_size=_FETCH
            )
            async with session:
                tx = await session.begin_transaction(
                    timeout=deadline.left_s, metadata=metadata(token)
                )
                finished = False
                try:
                    out = await self._read(tx, text, given, max_rows)
                    finished = True
                except LOST as exc:
                    raise LostMidway(
                        f"the graph server went away while it ran the query: {exc}"
                    ) from exc
                finally:
                    if not finished:
                        # Failed, out of time or cancelled: drop the connection, see the query end.
                        port = _local_port(tx)
                        session.cancel()
                        self._endings.end(text, port, token)
                await self._leave(session, tx, truncated=out[3])
                return out

    async def _read(
        self, tx: AsyncTransaction, text: str, given: Mapping[str, Any], max_rows: int
    ) -> tuple[tuple[str, ...], list[list[Any]], Converter, bool]:
        # Text and parameters are the user's: the guard has read the text, parameters are bound.
        result = await tx.run(text, dict(given))
        columns = tuple(result.keys()) or projection.columns(text)
        converter, rows, size, more = Converter(), list[list[Any]](), 0, False
        async for record in result:
            if len(rows) == max_rows:
                more = True
                break
            row = list(record.values())
            size += converter.survey(row)
            if size > self._max_bytes:
                raise ResultTooLarge(
                    f"the result passes {self._max_bytes} bytes after {len(rows)} rows; "
                    "return fewer columns, or add a LIMIT",
                    limit_bytes=self._max_bytes,
                    rows=len(rows),
                )
            rows.append(row)
        if converter.unnamed and not more:
            names = await tx.run(_NAMES, {"ids": sorted(converter.unnamed)})
            converter.names.update({i: str(name or "") async for i, name in names})
        elif converter.unnamed:
            converter.names.update(await self._names(sorted(converter.unnamed)))
        return columns, rows, converter, more

    async def _names(self, server_ids: list[str]) -> dict[str, str]:
        """Our ids, over another connection: this one is still in the middle of its rows."""
        async with self._driver().session(
            database=self._database, default_access_mode=READ_ACCESS
        ) as session:
            rows = await session.run(_NAMES, {"ids": server_ids})
            return {i: str(name or "") async for i, name in rows}

    async def _leave(self, session: AsyncSession, tx: AsyncTransaction, *, truncated: bool) -> None:
        """End the transaction. Closing one in the middle of its rows makes the driver DISCARD the
        rest, which ArcadeDB computes to the end first (27 s, seen): there the connection is dropped."""
        if truncated and not self._dialect.stops_on_disconnect:
            session.cancel()
        else:
            await tx.close()


def _local_port(tx: AsyncTransaction) -> int:
    """The local TCP port of the transaction's connection: how the server names its client.

    The driver has no public API for it. 0 when this version stores it elsewhere; the query's text
    then identifies it.
    """
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        return int(tx._connection.local_port)
    return 0


# ArcadeDB's messages for a query over its memory limit; it has no error code for that.
_HEAP = ("heap budget", "queryMaxHeapElementsAllowedPerOp")


@contextlib.contextmanager
def _user_errors(deadline: Deadline) -> Any:
    """Translate the server's errors of a user's statement."""
    try:
        yield
    except (ClientError, DatabaseError, TransientError) as exc:
        if deleted_meanwhile(exc):
            raise
        code = exc.code or ""
        if "TransactionTimedOut" in code or "Terminated" in code or "timeout" in str(exc.message):
            raise DeadlineExceeded("the graph query", deadline.limit_s) from exc
        if "Memory" in code or any(sign in str(exc.message) for sign in _HEAP):
            raise ResultTooLarge(
                "the query needs more memory than the graph server gives to one; match less, put LIMIT "
                "before collect(), or aggregate before ORDER BY and DISTINCT"
            ) from exc
        if "Security" in code and "Forbidden" not in code:
            raise
        if isinstance(exc, TransientError):  # a server that stops or starts, not the statement
            raise
        raise CypherInvalid(
            f"the graph server refused the statement: {exc.message}", field="cypher", code=code
        ) from exc
