"""The role that row security holds, `plait_app`: made once a server, lent to the role of the DSN."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from psycopg import errors as pg
from psycopg import sql

from plait.domain.errors import SchemaMismatch
from vector.connection.pool import APP_ROLE, Connection

# `SET` became a privilege of its own with PostgreSQL 16; before, members may.
_STATE = """
SELECT r.rolsuper OR r.rolbypassrls,
       pg_has_role(r.oid, %(privilege)s),
       has_database_privilege(r.oid, current_database(), 'TEMP')
  FROM pg_roles r WHERE r.rolname = %(role)s
"""
_ROLE = sql.Identifier(APP_ROLE)


async def ensure(conn: Connection, schemas: tuple[str, ...]) -> None:
    """Make sure that `plait_app` exists, that this login may become it, and that it reaches what it
    needs outside our schema: operators of the extensions in `schemas`, and temporary tables.

    Roles belong to the whole server: another database's Plait may have made it, or make it right now.

    Raises: SchemaMismatch, with the statements that an administrator runs.
    """
    state = await _state(conn)
    if state is None:
        await _try(conn, sql.SQL("CREATE ROLE {} NOLOGIN").format(_ROLE))
        state = await _state(conn)
    if state is not None and not state[1]:
        await _try(conn, sql.SQL("GRANT {} TO CURRENT_USER").format(_ROLE))
        state = await _state(conn)
    if state is None or not state[1]:
        raise SchemaMismatch(
            f"the role of `postgres.dsn`, {conn.info.user}, may not make or become the role {APP_ROLE}, "
            f"which row security holds; run as an administrator: CREATE ROLE {APP_ROLE} NOLOGIN "
            f'(unless it is there); GRANT {APP_ROLE} TO "{conn.info.user}"',
            role=APP_ROLE,
            user=conn.info.user,
        )
    if state[0]:
        raise SchemaMismatch(
            f"the role {APP_ROLE} is a superuser or passes row security by, so it would see every "
            f"tenant; run: ALTER ROLE {APP_ROLE} NOSUPERUSER NOBYPASSRLS",
            role=APP_ROLE,
        )
    if not state[2]:
        database = sql.Identifier(conn.info.dbname)
        await _grant(conn, sql.SQL("GRANT TEMPORARY ON DATABASE {} TO {}").format(database, _ROLE))
    for schema in schemas:
        cursor = await conn.execute(
            "SELECT has_schema_privilege(%s, oid, 'USAGE') FROM pg_namespace WHERE nspname = %s",
            (APP_ROLE, schema),
        )
        if await cursor.fetchone() == (False,):
            name = sql.Identifier(schema)
            await _grant(conn, sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(name, _ROLE))


async def check(conn: Connection) -> None:
    """Raises: SchemaMismatch, when the tables belong to another role than this login: row security
    would hide every row from indexing, and it would look empty."""
    cursor = await conn.execute(
        "SELECT coalesce(row_security_active(to_regclass('plait.repository')::oid), false)"
    )
    if await cursor.fetchone() == (True,):
        raise SchemaMismatch(
            f"the role of `postgres.dsn`, {conn.info.user}, does not own the tables of the schema "
            "`plait`, so row security hides their rows from it; log in as their owner",
            user=conn.info.user,
        )


async def _state(conn: Connection) -> tuple[Any, ...] | None:
    privilege = "SET" if conn.info.server_version >= 160_000 else "MEMBER"
    cursor = await conn.execute(_STATE, {"role": APP_ROLE, "privilege": privilege})
    return await cursor.fetchone()


async def _try(conn: Connection, statement: sql.Composed) -> None:
    """Run it; what it was for is looked at afterwards, since somebody else may have done the same."""
    # InternalError: "tuple concurrently updated", two grants at once.
    with suppress(
        pg.InsufficientPrivilege, pg.DuplicateObject, pg.UniqueViolation, pg.InternalError_
    ):
        await conn.execute(statement)


async def _grant(conn: Connection, statement: sql.Composed) -> None:
    try:
        await conn.execute(statement)
    except pg.InsufficientPrivilege as exc:
        raise SchemaMismatch(
            f"the role {APP_ROLE} lacks a privilege that the role of `postgres.dsn` may not give it; "
            f"run as an administrator: {statement.as_string(conn)}",
            role=APP_ROLE,
        ) from exc
