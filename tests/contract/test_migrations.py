"""Opening a database: migrations run once, and a database of another version is refused by name."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import psycopg
import pytest

import vector
from plait.domain.errors import SchemaMismatch, StoreUnavailable
from plait.settings import Settings, load
from vector.migrate import migrate, migrations
from vector.pool import Database
from vector.store import Store


@pytest.fixture
async def recorded(store: Store, truth_dsn: str) -> AsyncIterator[None]:
    """The record of migrations as it was, afterwards."""
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        rows = conn.execute("SELECT number, name, checksum FROM plait.schema_migration").fetchall()
        yield
        conn.execute("DELETE FROM plait.schema_migration")
        with conn.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO plait.schema_migration (number, name, checksum) VALUES (%s, %s, %s)",
                rows,
            )


async def test_several_processes_may_open_at_once(store: Store, truth_settings: Settings) -> None:
    stores = await asyncio.gather(*(vector.open(truth_settings) for _ in range(4)))
    for opened in stores:
        await opened.close()
        await opened.close()


async def test_a_changed_migration_is_named(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("UPDATE plait.schema_migration SET checksum = 'x' WHERE number = 1")
    with pytest.raises(SchemaMismatch, match="0001_schema") as caught:
        await vector.open(truth_settings)
    assert caught.value.metadata["migration"] == "0001_schema"


async def test_an_unknown_migration_is_named(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO plait.schema_migration (number, name, checksum) VALUES (999, 'future', 'x')"
        )
    with pytest.raises(SchemaMismatch, match="0999_future"):
        await vector.open(truth_settings)


async def test_a_migration_that_fails_leaves_nothing(
    recorded: None, truth_dsn: str, truth_settings: Settings
) -> None:
    broken = replace(
        migrations()[0], number=900, name="broken", body="CREATE TABLE half (); SELECT nonsense;"
    )
    conn = await Database(truth_dsn, truth_settings).dedicated()
    try:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await migrate(conn, [*migrations(), broken])
        cursor = await conn.execute(
            "SELECT to_regclass('plait.half'), (SELECT max(number) FROM plait.schema_migration)"
        )
        assert await cursor.fetchone() == (None, max(m.number for m in migrations()))
    finally:
        await conn.close()


async def test_a_server_that_is_not_there_is_said_to_be(truth_settings: Settings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dsn = f"host=127.0.0.1 port={taken.getsockname()[1]} dbname=x user=x"
        gone = load(
            environ={
                "PLAIT_HOME": str(truth_settings.home),
                "PLAIT_POSTGRES__DSN": dsn,
                "PLAIT_POSTGRES__CONNECT_TIMEOUT_S": "2",
            }
        )
        with pytest.raises(StoreUnavailable, match=r"postgres\.dsn"):
            await vector.open(gone)
