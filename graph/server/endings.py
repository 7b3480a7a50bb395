"""Ends users' queries whose time is up, and the embedded server when a query does not end.

A query is terminated, then watched. Both servers check for termination only between two rows, so a long loop
inside one expression runs on. The embedded server is then killed: its keeper restarts it within seconds,
and other readers reconnect (`CypherStore._following`). An external server cannot be killed: that is logged,
counted, and shown by `plait doctor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from neo4j import AsyncDriver, AsyncSession
from neo4j.exceptions import DriverError, Neo4jError

logger = logging.getLogger(__name__)

# From the deadline until the server is killed. With a start of 2 to 3 s the machine is at rest 5 s later.
END_S = 2.0
_LOOK_S = 0.2  # between two looks whether the query has ended
_KEY = "plait"  # in a transaction's metadata, where the server keeps it

Replace = Callable[[], Awaitable[bool]]


class Endings:
    """The queries that are being ended at one server. `replace`: kills the server, False where it was
    another by then; None where it is not ours."""

    def __init__(
        self, driver: Callable[[], AsyncDriver], database: str | None, replace: Replace | None
    ):
        self._driver = driver
        self._database = database
        self._replace = replace
        self._tasks: set[asyncio.Task[None]] = set()
        self.ran_on = 0  # queries that a server which is not ours did not end

    def end(self, text: str, port: int, token: str) -> None:
        """See to it, in the background, that this query ends: the one with this token, or this text from
        this local port."""
        task = asyncio.get_running_loop().create_task(self._end(text, port, token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self, text: str, port: int, token: str) -> None:
        if await self._ended(text, port, token):
            return
        if self._replace is None:
            self.ran_on += 1
            logger.error(
                "a graph query runs on after it was terminated; restart the graph server, or give users' "
                "Cypher one of its own by graph.reader_uri",
                extra={"waited_s": END_S},
            )
        elif await self._replace():
            logger.error("graph server killed: a query would not end", extra={"waited_s": END_S})

    async def _ended(self, text: str, port: int, token: str) -> bool:
        """Whether it is gone within `END_S`; a server that does not say so is taken to run it."""
        try:
            async with asyncio.timeout(END_S):
                async with self._driver().session(database=self._database) as session:
                    while running := await _running(session, text, port, token):
                        for id_ in running:
                            await _terminate(session, id_)
                        await asyncio.sleep(_LOOK_S)
            return True
        except (Neo4jError, DriverError, TimeoutError, OSError) as exc:
            logger.debug("could not see a graph query end", extra={"error": repr(exc)})
            return False

    async def close(self) -> None:
        """Wait for queries that are being ended."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def metadata(token: str) -> dict[str, Any]:
    """What a transaction is begun with to be found again."""
    return {_KEY: token}


async def _running(session: AsyncSession, text: str, port: int, token: str) -> list[str]:
    """The ids of the transactions that still run the query."""
    rows = await (await session.run("SHOW TRANSACTIONS")).data()
    return [str(row["transactionId"]) for row in rows if _matches(row, text, port, token)]


def _matches(row: dict[str, Any], text: str, port: int, token: str) -> bool:
    metadata = row.get("metaData")
    if isinstance(metadata, dict) and metadata:
        return bool(metadata.get(_KEY) == token)
    here = not port or str(row.get("clientAddress")).endswith(f":{port}")
    return here and row.get("currentQuery") == text


def is_running_on(row: dict[str, Any]) -> bool:
    """Whether this row of SHOW TRANSACTIONS is one of our queries that was terminated."""
    metadata = row.get("metaData")
    ours = isinstance(metadata, dict) and _KEY in metadata
    return ours and str(row.get("status", "")).startswith(("Terminat", "Closing"))


async def _terminate(session: AsyncSession, id_: str) -> None:
    ended = await session.run("TERMINATE TRANSACTIONS $id", {"id": id_})
    await ended.consume()
