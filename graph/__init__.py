"""The Cypher adapter: Plait's graph over Bolt, on Neo4j and on the embedded ArcadeDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph.store import CypherStore
    from plait.settings import Settings


async def open(settings: Settings) -> CypherStore:
    """The graph store of `settings`: `graph.uri`, or the embedded server when that is empty.

    Raises: StoreUnavailable, EmbeddedServerFailed, BadSettings, SchemaMismatch.
    """
    from graph.store import open_store

    return await open_store(settings)
