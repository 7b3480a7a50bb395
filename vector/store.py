"""The PostgreSQL store: one object for each port of the truth, over one database."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vector.connection import log, schema
from vector.connection.dsn import external
from vector.connection.errors import translated
from vector.connection.migrate import migrate
from vector.connection.pool import Database, Scoped
from vector.episodes.store import Episodes
from vector.forget.exposed import Exposed
from vector.forget.store import Forgetting
from vector.impact.store import Impacts
from vector.index.bm25 import SpaceCache
from vector.index.merger import SegmentMerger
from vector.index.queue import Queue
from vector.index.repositories import Repositories
from vector.index.store import Drafts
from vector.keys import Keys
from vector.memories.store import Memories
from vector.projection.store import Outbox
from vector.recalls.savings import Savings
from vector.recalls.store import Recalls
from vector.retention.store import Retention
from vector.search.memory_links import MemoryLinks
from vector.search.port import Search
from vector.search.relations import Relations
from vector.search.store import Lexical

if TYPE_CHECKING:
    from plait import ports
    from plait.ports.rules import Rules
    from plait.settings import Settings
    from vector.server.embedded import PostgresLease


@dataclass(frozen=True, slots=True)
class Store:
    """The ports by name, see `plait.ports`.

    `db` is the owner's pool: indexing, projection, retention. `app` is held to one tenant a call by
    row security: serving reads, and writes of episodes and memories.
    """

    db: Database
    app: Scoped
    index: Drafts
    repositories: Repositories
    vectors: Queue
    search: Search
    relations: Relations
    memory_links: MemoryLinks
    impact: Impacts
    episodes: Episodes
    memories: Memories
    retention: Retention
    forgetting: Forgetting
    recalls: Recalls
    savings: Savings
    keys: Keys
    outbox: Outbox
    exposed: Exposed
    merger: SegmentMerger
    lease: PostgresLease | None = None

    @classmethod
    async def open(cls, settings: Settings, rules: Rules) -> Store:
        """Raises: StoreUnavailable, SchemaMismatch, EmbeddedServerFailed, BadSettings."""
        dsn = external(settings)
        lease: PostgresLease | None = None
        if not dsn:
            from vector.server import embedded

            lease = await asyncio.to_thread(embedded.ensure, settings)
            dsn = lease.dsn
        try:
            db, app = await _connected(dsn, settings, lease)
        except BaseException:
            if lease is not None:
                await asyncio.to_thread(lease.close)
            raise
        if lease is not None:
            schema.note(settings.home / "postgres")
        return cls.over(db, app, rules, lease)

    @classmethod
    def over(
        cls, db: Database, app: Scoped, rules: Rules, lease: PostgresLease | None = None
    ) -> Store:
        """The ports over pools that are open."""
        spaces, merger = SpaceCache(), SegmentMerger(db)
        lexical = Lexical(app, spaces)
        return cls(
            db,
            app,
            index=Drafts(db),
            repositories=Repositories(db, app),
            vectors=Queue(db),
            search=Search(db, app, lexical),
            relations=Relations(app),
            memory_links=MemoryLinks(app),
            impact=Impacts(app),
            episodes=Episodes(app, merger, rules),
            memories=Memories(db, app, merger, rules),
            retention=Retention(db, merger),
            forgetting=Forgetting(db, spaces),
            recalls=Recalls(db, app, rules),
            savings=Savings(app),
            keys=Keys(db),
            outbox=Outbox(db, rules),
            exposed=Exposed(db),
            merger=merger,
            lease=lease,
        )

    async def ping(self) -> None:
        """One round trip over a fresh connection. Raises: StoreUnavailable, EmbeddedServerFailed."""
        await self.db.ping()

    async def refreshed(self) -> None:
        """The server answers again after it did not: connections from before are not used again."""
        await self.db.refreshed()
        await self.app.refreshed()
        await self.outbox.refreshed()

    async def shorten_log(self) -> int:
        """Bytes of the embedded server's log that a checkpoint has covered by now, 0 for too few to be worth
        one. Of an external server, whose settings are somebody else's, always 0."""
        return await log.shorten(self.db) if self.lease is not None else 0

    async def close(self) -> None:
        """Release locks and connections, then the lease on the embedded server. Safe to repeat."""
        await self.relations.close()
        await self.search.close()
        await self.merger.finished()
        await self.index.close()
        await self.outbox.close()
        await self.app.close()
        await self.db.close()
        if self.lease is not None:
            await asyncio.to_thread(self.lease.close)


async def _connected(
    dsn: str, settings: Settings, lease: PostgresLease | None
) -> tuple[Database, Scoped]:
    """Both pools, over a database that is brought to the current schema."""
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
    return db, app


if TYPE_CHECKING:

    def _satisfy_their_ports(store: Store) -> tuple[object, ...]:
        """Adapters don't inherit from ports; here types are checked against them."""
        index: ports.IndexStore = store.index
        repositories: ports.RepositoryStore = store.repositories
        vectors: ports.VectorQueue = store.vectors
        search: ports.SearchStore = store.search
        versions: ports.CodeVersions = store.search
        relations: ports.RelationStore = store.relations
        memory_links: ports.MemoryLinkStore = store.memory_links
        impact: ports.ImpactStore = store.impact
        episodes: ports.EpisodeStore = store.episodes
        memories: ports.MemoryStore = store.memories
        retention: ports.RetentionStore = store.retention
        forgetting: ports.ForgetStore = store.forgetting
        recalls: ports.RecallStore = store.recalls
        savings: ports.SavingsStore = store.savings
        keys: ports.KeyStore = store.keys
        outbox: ports.Outbox = store.outbox
        stores = (index, repositories, vectors, search, relations, impact, episodes, memories)
        return (
            *stores,
            memory_links,
            versions,
            retention,
            forgetting,
            recalls,
            savings,
            keys,
            outbox,
        )
