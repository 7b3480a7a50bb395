"""Outbox."""

from __future__ import annotations

from vector.pool import Connection


async def queue_index(conn: Connection, repo_id: int, number: int) -> None:
    """Queue the projection of a revision that the same transaction publishes."""
    await conn.execute(
        "INSERT INTO outbox (repo_id, kind, number) VALUES (%s, 'index', %s)", (repo_id, number)
    )
