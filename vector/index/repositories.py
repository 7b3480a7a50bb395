"""Repositories: their rows, what readers see of them, their removal, their garbage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plait.domain.errors import RepositoryBusy, RepositoryNameTaken, RepositoryNotIndexed
from plait.domain.scope import DEFAULT_TENANT, check_own, check_tenant, unqualify
from plait.domain.values import Revision
from vector.connection import locks
from vector.connection.clock import tick
from vector.connection.pool import Connection, Database, Scoped
from vector.index import kept_trees

COLUMNS = "r.id, r.name, r.published, r.root, r.files, r.chunks, r.embedded, r.graph_number, r.published_at"


# Everything that goes with a repository; rows that hang on `episode` or `compaction` go with theirs.
TABLES = (
    "item", "file_version", "file_member", "graph_part", "graph_member", "symbol_name", "memory_edge", "memory_node", "episode",
    "request", "memory_request", "compaction", "revision_log", "feedback", "feedback_item",
)  # fmt: skip


# Tenants of whose text something is in the graph, or may be: nothing is in it that is neither in these
# tables nor among the events that wait or were given up. A repository that is being removed counts until
# its removal is projected. In an index's order, one look-up each: else the planner takes what is asked for
# to be common, and reads a whole table to find none of a repository that is gone.
TENANTS = """
SELECT DISTINCT r.tenant FROM repository r
 WHERE r.published > 0 OR r.graph_number > 0 OR r.graph_target > 0
    OR r.graph_busy OR r.graph_broken OR r.memory_busy
    OR (SELECT 1 FROM item i WHERE i.repo_id = r.id ORDER BY i.path LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM episode e WHERE e.repo_id = r.id ORDER BY e.recorded_at LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM memory_node n WHERE n.repo_id = r.id ORDER BY n.name LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM outbox o WHERE o.repo_id = r.id ORDER BY o.id LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM dead_letter d WHERE d.repo_id = r.id LIMIT 1) IS NOT NULL
 ORDER BY r.tenant
"""


def to_revision(row: tuple[Any, ...]) -> Revision:
    """From a row of `COLUMNS`."""
    return Revision(*row)


async def ensure_row(conn: Connection, repo: str, tenant: str = DEFAULT_TENANT) -> int:
    """The id of `tenant`'s repository `repo` (qualified), whose row is made when it is new.

    Raises:
        InvalidInput: a new name of the default tenant that another tenant's could have.
        RepositoryNameTaken: the name belongs to another tenant.
    """
    mine = "SELECT id FROM repository WHERE name = %s AND tenant = %s"
    cursor = await conn.execute(mine, (repo, tenant))
    row = await cursor.fetchone()
    if row is None:
        # Before the name is tried, so that the answer does not tell whether it exists.
        check_own(tenant, repo)
        await conn.execute(
            "INSERT INTO repository (name, tenant) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (repo, tenant),
        )
        cursor = await conn.execute(mine, (repo, tenant))
        row = await cursor.fetchone()
        if row is None:
            name = unqualify(tenant, repo)
            raise RepositoryNameTaken(name, "a place outside your tenant", "a new repository")
    return int(row[0])


class Repositories:
    """RepositoryStore."""

    def __init__(self, db: Database, app: Scoped) -> None:
        self._db = db
        self._app = app

    async def list(self, tenant: str | None = None) -> Sequence[Revision]:
        query = f"SELECT {COLUMNS} FROM repository r WHERE r.published > 0 ORDER BY r.name"
        if tenant is None:
            rows = await self._db.rows(query, {})
        else:
            rows = await self._app.rows(query, {}, tenant=check_tenant(tenant))
        return [to_revision(row) for row in rows]

    async def tenants(self) -> Sequence[str]:
        return [row[0] for row in await self._db.rows(TENANTS, {})]

    async def revision(self, repo: str) -> Revision:
        rows = await self._db.rows(
            f"SELECT {COLUMNS} FROM repository r WHERE r.name = %(repo)s AND r.published > 0",
            {"repo": repo},
        )
        if not rows:
            raise RepositoryNotIndexed(repo)
        return to_revision(rows[0])

    async def delete(self, repo: str, tenant: str = DEFAULT_TENANT) -> None:
        """Remove code, episodes and memories of `repo`, and queue its removal from the graph.

        Its row stays as a tombstone, so that revision numbers go on where they were.
        """
        rows = await self._db.rows(
            "SELECT id FROM repository r WHERE name = %(repo)s AND tenant = %(tenant)s"
            " AND (published > 0 OR EXISTS (SELECT FROM item i WHERE i.repo_id = r.id)"
            "      OR EXISTS (SELECT FROM episode e WHERE e.repo_id = r.id))",
            {"repo": repo, "tenant": tenant},
        )
        if not rows:
            raise RepositoryNotIndexed(repo)
        repo_id = rows[0][0]
        conn = await self._db.dedicated()
        try:
            if not await locks.try_lock(conn, locks.INDEXING, repo_id):
                raise RepositoryBusy(repo)
            await self._db.retry(lambda _: self._delete(repo_id))
        finally:
            await locks.release(conn, locks.INDEXING, repo_id)

    async def _delete(self, repo_id: int) -> None:
        async with self._db.transaction() as conn:
            params = {"id": repo_id}
            await conn.execute("SET LOCAL statement_timeout = 0")
            await conn.execute("SELECT FROM repository WHERE id = %(id)s FOR UPDATE", params)
            # Merging and whoever stores a memory end first, so that what they write is seen and goes.
            lock = "SELECT pg_advisory_xact_lock(%s, %s)"
            await conn.execute(lock, (locks.MERGING, repo_id))
            await tick(conn, repo_id)
            # From here on until this is committed no receipt is kept.
            await conn.execute(lock, (locks.RECALLING, repo_id))
            for table in TABLES:
                await conn.execute(f"DELETE FROM {table} WHERE repo_id = %(id)s", params)
            # A receipt may be of several repositories; what it holds of one goes with it.
            await conn.execute("DELETE FROM recall WHERE %(id)s = ANY(repo_ids)", params)
            await drop_segments(conn, "repo_id = %(id)s", params)
            # The removal takes all of the repository out of the graph, whatever these left of it there.
            # Dead letters second: an event that is given up meanwhile is in one of the two.
            await conn.execute("DELETE FROM outbox WHERE repo_id = %(id)s", params)
            await conn.execute("DELETE FROM dead_letter WHERE repo_id = %(id)s", params)
            await conn.execute(
                "INSERT INTO outbox (repo_id, kind) VALUES (%(id)s, 'remove')", params
            )
            await conn.execute(
                "UPDATE repository SET published = 0, collected = last_number, root = '', files = 0,"
                " chunks = 0, embedded = 0, stats = '{}', draft_token = NULL, published_at = NULL"
                " WHERE id = %(id)s",
                params,
            )


async def drop_segments(conn: Connection, where: str, params: dict[str, Any]) -> None:
    """Delete the segments that match `where` (our own SQL, values bound) with all they hold."""
    await conn.execute(
        f"WITH gone AS (DELETE FROM segment WHERE {where} RETURNING id),"
        " dead AS (DELETE FROM segment_dead WHERE segment_id IN (SELECT id FROM gone))"
        " DELETE FROM posting WHERE segment_id IN (SELECT id FROM gone)",
        params,
    )


async def collect_garbage(
    conn: Connection,
    repo_id: int,
    keep_s: float = 0.0,
    *,
    keep_trees: int = 0,
    replaced: bool = False,
) -> None:
    """Remove what no reader can ask for any more: rows retired before the revision before this one,
    and before the one that was published `keep_s` seconds ago. `replaced`: all but the published one's.
    Files of the trees that are kept (`vector/index/kept_trees.py`) stay, unread.

    A reader that began on the previous revision still finds its rows. The graph's parts are kept as
    long, and for as long as the graph is behind: its next delta is computed from them.
    """
    cursor = await conn.execute(
        "SELECT CASE WHEN %(replaced)s THEN published ELSE"
        " LEAST(published - 1, (SELECT coalesce(max(number), 0) FROM revision_log"
        "  WHERE repo_id = %(id)s AND published_at <= now() - make_interval(secs => %(keep)s))) END,"
        " collected,"
        " LEAST(published - (NOT %(replaced)s)::int, NULLIF(graph_number, 0), NULLIF(graph_target, 0))"
        " FROM repository WHERE id = %(id)s",
        {"id": repo_id, "keep": keep_s, "replaced": replaced},
    )
    row = await cursor.fetchone()
    if row is None or row[0] <= row[1]:
        return
    params = {"id": repo_id, "horizon": row[0], "graph": min(row[0], row[2])}
    async with conn.transaction():
        await kept_trees.prune(conn, repo_id, 0 if replaced else keep_trees)
        await kept_trees.drop_left(conn, params)
        await drop_segments(conn, "repo_id = %(id)s AND rev_to <= %(horizon)s", params)
        await _fold_dead(conn, params)
        await conn.execute(
            "UPDATE repository SET collected = %(horizon)s WHERE id = %(id)s", params
        )


async def _fold_dead(conn: Connection, params: dict[str, Any]) -> None:
    """One list of dead documents a segment, for revisions nobody reads apart any more."""
    await conn.execute(
        "DELETE FROM segment_dead d USING segment s"
        " WHERE s.id = d.segment_id AND s.repo_id = %(id)s AND d.rev < ("
        "       SELECT max(n.rev) FROM segment_dead n"
        "        WHERE n.segment_id = d.segment_id AND n.rev <= %(horizon)s)",
        params,
    )
