"""The PostgreSQL store: every port of the truth on one object, composed of a class a port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from vector.anchors.freshness import Standings
from vector.anchors.freshness_text import Cache as NamedCache
from vector.connection import schema
from vector.connection.dsn import external
from vector.connection.errors import translated
from vector.connection.migrate import migrate
from vector.connection.pool import Database, Scoped
from vector.episodes.store import Episodes
from vector.forget.exposed import Exposed
from vector.forget.store import Forgetting
from vector.impact.store import Impacts
from vector.index.bm25 import SpaceCache
from vector.index.queue import Queue
from vector.index.repositories import Repositories
from vector.index.store import Drafts
from vector.index.vocabulary import VocabularyCache, Words
from vector.keys import Keys
from vector.memories.store import Memories
from vector.projection.store import Outbox
from vector.recalls.savings import SavingsReads
from vector.recalls.store import Recalls
from vector.retention.store import Retention
from vector.search.located import Located, PathCache
from vector.search.nearest import Nearest
from vector.search.relations import Relations
from vector.search.relations_cache import GraphCache
from vector.search.store import Lexical
from vector.search.threads import Threads

if TYPE_CHECKING:
    from plait.settings import Settings
    from vector.server.embedded import PostgresLease


class Store(
    Drafts,
    Repositories,
    Queue,
    Memories,
    Retention,
    Forgetting,
    Lexical,
    Standings,
    Threads,
    Words,
    Located,
    Nearest,
    Relations,
    Impacts,
    Episodes,
    Recalls,
    SavingsReads,
    Keys,
    Exposed,
    Outbox,
):
    """IndexStore, VectorQueue, SearchStore, EpisodeStore, MemoryStore, RetentionStore, RecallStore,
    SavingsStore, KeyStore and Outbox over one database.

    `db` is the owner's pool: indexing, projection, retention. `app` is held to one tenant a call by
    row security: serving reads, and writes of episodes and memories.
    """

    def __init__(self, db: Database, app: Scoped, lease: PostgresLease | None = None) -> None:
        self._db = db
        self._app = app
        self._lease = lease
        self._drafts = {}
        self._spaces = SpaceCache()
        self._path_cache = PathCache()
        self._named_cache = NamedCache()
        self._vocabularies = VocabularyCache(wait_s=app.settings.search.names_wait_s)
        self._graphs = GraphCache(app.settings.recall.max_graph_edges)
        self._claims = {}
        self._locked = set()
        self._unmerged = {}
        self._merging = set()
        self._claiming = None
        self._connecting = asyncio.Lock()

    @classmethod
    async def open(cls, settings: Settings) -> Store:
        """Raises: StoreUnavailable, SchemaMismatch, EmbeddedServerFailed, BadSettings."""
        dsn = external(settings)
        lease: PostgresLease | None = None
        if not dsn:
            from vector.server import embedded

            lease = await asyncio.to_thread(embedded.ensure, settings)
            dsn = lease.dsn
        try:
            store = await cls._connect(dsn, settings, lease)
        except BaseException:
            if lease is not None:
                await asyncio.to_thread(lease.close)
            raise
        if lease is not None:
            schema.note(settings.home / "postgres")
        return store

    @classmethod
    async def _connect(cls, dsn: str, settings: Settings, lease: PostgresLease | None) -> Store:
        revive = lease.refresh if lease else None
        conn = await Database(dsn, settings, revive=revive).dedicated()
        try:
            with translated(settings.postgres.statement_timeout_s):
                schemas = await migrate(conn)
        finally:
            await conn.close()
        dsn = lease.dsn if lease else dsn
        db = Database(dsn, settings, schemas, revive)
        app = Scoped(dsn, settings, schemas, revive)
        try:
            await db.open()
            await app.open()
        except BaseException:
            await app.close()
            await db.close()
            raise
        return cls(db, app, lease)

    async def ping(self) -> None:
        """One round trip over a fresh connection. Raises: StoreUnavailable, EmbeddedServerFailed."""
        await self._db.ping()

    async def refreshed(self) -> None:
        """The server answers again after it did not: connections from before are not used again."""
        await self._db.refreshed()
        await self._app.refreshed()
        if self._claiming is not None:
            # Who waits on it hears that it is closed; its locks are the server's to drop.
            await self._claiming.close()

    async def close(self) -> None:
        """Release locks and connections, then the lease on the embedded server. Safe to repeat."""
        await self._graphs.close()
        await self._vocabularies.close()
        await self.merged()
        await self._close_drafts()
        await self._close_claims()
        await self._app.close()
        await self._db.close()
        if self._lease is not None:
            lease, self._lease = self._lease, None
            await asyncio.to_thread(lease.close)
