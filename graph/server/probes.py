"""Start-up probes: what the graph server must refuse before it may see a user's Cypher.

The guard is the first barrier, the server's own rules the second; a server without the second barrier
is not used for users' Cypher at all. Each probe runs in a transaction that is rolled back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from neo4j import READ_ACCESS
from neo4j.exceptions import Neo4jError

from graph.bolt import Bolt, translated
from graph.dialect import Dialect
from plait.domain.errors import UnsafeGraphStore

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Probe:
    """`text` must fail; `fix`: by server, what to change when it does not."""

    title: str
    text: str
    fix: str


WRITES = Probe(
    "wrote a node in a read transaction",
    "CREATE (p:PlaitProgress {id: 'plait safety probe'}) RETURN p.id AS id",
    "give `graph.reader_user` and `graph.reader_password` a login that may only read",
)
FILES = Probe(
    "read a local file by LOAD CSV",
    "LOAD CSV FROM 'file:///etc/hosts' AS line RETURN line LIMIT 1",
    "start Neo4j with dbms.security.allow_csv_import_from_file_urls=false "
    "(ArcadeDB: arcadedb.opencypher.loadCsv.allowFileUrls=false)",
)
PROBES = (WRITES, FILES)


class Safety:
    """The probes' verdict on one server, found once."""

    def __init__(self, bolt: Bolt, dialect: Dialect) -> None:
        self._bolt = bolt
        self._dialect = dialect
        self._lock = asyncio.Lock()
        self._passed = False

    async def check(self) -> None:
        """Raises: UnsafeGraphStore, for what went through that should not; StoreUnavailable."""
        if self._passed:
            return
        async with self._lock:
            if self._passed:
                return
            for probe in PROBES:
                if await self._succeeds(probe):
                    raise UnsafeGraphStore(
                        f"{self._dialect.title} {probe.title}, so users' Cypher is not served; "
                        f"{probe.fix}",
                        server=self._dialect.title,
                        probe=probe.title,
                    )
            self._passed = True

    async def _succeeds(self, probe: Probe) -> bool:
        with translated("graph"):
            async with self._bolt.users.session(
                database=self._bolt.database, default_access_mode=READ_ACCESS
            ) as session:
                tx = await session.begin_transaction(timeout=_TIMEOUT_S)
                try:
                    await (await tx.run(probe.text)).values()
                except Neo4jError as exc:
                    if exc.is_retryable():
                        raise
                    return False
                finally:
                    await tx.close()
        return True
