"""PostgreSQL, the graph server, and the home they live in."""

from __future__ import annotations

from plait.domain.errors.families import Busy, Exhausted, Precondition, Unavailable


class StoreUnavailable(Unavailable):
    """A database does not answer."""

    reason = "STORE_UNAVAILABLE"


class GraphUnavailable(StoreUnavailable):
    """The graph server does not answer."""

    reason = "GRAPH_UNAVAILABLE"


class StoreFull(Exhausted):
    """The disk under a database is full."""

    reason = "STORE_FULL"


class StoreContended(Busy):
    """A deadlock or a serialization failure that did not go away when tried again."""

    reason = "STORE_CONTENDED"


class EmbeddedServerFailed(Unavailable):
    """A child server did not start or keep running."""

    reason = "EMBEDDED_SERVER_FAILED"


class HomeUnusable(Precondition):
    """The data folder cannot be written, or the servers' account cannot reach it."""

    reason = "HOME_UNUSABLE"


class SchemaMismatch(Precondition):
    """The database's migrations differ from this version's."""

    reason = "SCHEMA_MISMATCH"


class UnsafeGraphStore(Precondition):
    """A start-up probe that should have been refused by the graph server went through."""

    reason = "UNSAFE_GRAPH_STORE"


class GraphUpdating(Busy):
    """The graph is between two revisions and the caller's deadline is too short to wait, or what a read
    asks for was being deleted in every one of its tries."""

    reason = "GRAPH_UPDATING"


class GraphConflict(Busy):
    """Two processes write the same part of the graph; the one that lost tries again."""

    reason = "GRAPH_CONFLICT"
