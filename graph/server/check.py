"""Whether a graph server would serve Plait: logs in as both its users, asks, changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neo4j.exceptions import ClientError, Neo4jError

from graph.bolt import Bolt, Endpoint, translated
from graph.server import embedded, endings
from plait.domain.errors import BadSettings, GraphUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from plait.settings import Settings

ASK = "RETURN 1 AS one"
# The columns that are not shown unasked.
_SHOW = "SHOW TRANSACTIONS YIELD status, metaData"


def check(settings: Settings) -> str:
    """What answers at `graph.uri`, as in "Neo4j/5.26.30".

    Raises: BadSettings, StoreUnavailable; each names its fix behind a semicolon.
    """
    # One try: `plait doctor` reports the present state.
    endpoint = replace(Endpoint.external(settings), stays=False)
    return asyncio.run(_ask(endpoint))


def check_embedded(where: Mapping[str, Any], passwords: tuple[str, str], timeout_s: float) -> str:
    """As `check`, of the running embedded server at `where`. `passwords`: the writer's, the reader's."""
    endpoint = Endpoint(
        uri=f"bolt://{where['host']}:{where['bolt_port']}",
        writer=(embedded.WRITER, passwords[0]),
        reader=(embedded.READER, passwords[1]),
        database=embedded.DATABASE,
        connect_timeout_s=timeout_s,
        stays=False,
    )
    return asyncio.run(_ask(endpoint))


async def _ask(endpoint: Endpoint) -> str:
    bolt = Bolt(endpoint)
    try:
        with translated("graph"):
            info = await bolt._writer.get_server_info()
        await bolt.read(ASK)
        with translated("graph"):
            async with bolt.reader.session(database=bolt.database) as session:
                await (await session.run(ASK)).consume()
        return f"{info.agent}{await _running_on(bolt)}"
    except ClientError as exc:
        raise _refused(exc, endpoint.database) from exc
    except StoreUnavailable as exc:
        raise GraphUnavailable(
            f"{exc.message.partition('; ')[0]}; start that server, or mend `graph.uri`"
        ) from exc
    finally:
        await bolt.close()


async def _running_on(bolt: Bolt) -> str:
    """ ", 1 query runs on …" when one of our queries was terminated and still runs; else ""."""
    try:
        async with bolt.users.session(database=bolt.database) as session:
            rows = await (await session.run(_SHOW)).data()
    except Neo4jError:
        return ""  # a login without the right, or a server without this statement
    stuck = [row for row in rows if endings.is_running_on(row)]
    if not stuck:
        return ""
    return (
        f", where {len(stuck)} of our queries run on after they were terminated: restart it, and give "
        "users' Cypher a server of its own by `graph.reader_uri`"
    )


def _refused(exc: ClientError, database: str) -> BadSettings:
    message = (exc.message or str(exc)).replace("; ", ", ")
    if "DatabaseNotFound" in (exc.code or ""):
        return BadSettings(
            f"the graph server has no database {database!r}; create it there, or mend `graph.database` (empty: "
            "the server's own)",
            key="graph.database",
        )
    return BadSettings(
        f"the graph server refuses us ({message}); check `graph.user`, `graph.password` and what that user may do",
        key="graph.password",
    )
