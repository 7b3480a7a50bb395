"""The PostgreSQL adapter: collections, vectors, BM25, the truth behind the graph, the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.ports.rules import Rules
    from plait.settings import Settings
    from vector.store import Store


async def open(settings: Settings, rules: Rules) -> Store:
    """Connect, migrate, and return the store; with no `postgres.dsn` the embedded server is started.
    `rules`: the core's decisions inside transactions; `etl.truth.open` knows them.

    The driver is imported here, so that `import vector` costs nothing.

    Raises: StoreUnavailable, SchemaMismatch, EmbeddedServerFailed.
    """
    from vector.store import Store

    return await Store.open(settings, rules)
