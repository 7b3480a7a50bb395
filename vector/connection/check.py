"""Whether a PostgreSQL would serve Plait: logs in, asks, changes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

from plait.domain.errors import BadSettings, PlaitError, SchemaMismatch, StoreUnavailable
from vector.connection.errors import translated
from vector.connection.migrate import EXTENSIONS, MIN_PGVECTOR, MIN_SERVER

# By what libpq says, which has no code for a connection that was refused; the first that fits.
REFUSALS = (
    ("password authentication failed", "mend the user and the password in `postgres.dsn`"),
    ("no password supplied", "put the password into `postgres.dsn`"),
    ("role ", "create that role (`CREATE ROLE … LOGIN`), or mend the user in `postgres.dsn`"),
    ("database ", "create it (`createdb`), or mend the database's name in `postgres.dsn`"),
    ("no pg_hba.conf entry", "let this machine in by a line in the server's pg_hba.conf"),
    ("could not translate host name", "mend the host in `postgres.dsn`"),
    ("SSL", "mend `sslmode` in `postgres.dsn`, or the server's certificate"),
)
START = "start that server, or mend the address in `postgres.dsn`"
EXTENSION = """
SELECT a.name, a.default_version, a.installed_version,
       bool_or(v.trusted) OR bool_or(r.rolsuper), has_database_privilege(current_database(), 'CREATE')
  FROM pg_available_extensions a
  JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = a.default_version
  JOIN pg_roles r ON r.rolname = current_user
 WHERE a.name = ANY(%s)
 GROUP BY a.name, a.default_version, a.installed_version
"""


def check(dsn: str, timeout_s: float) -> str:
    """The server's version and pgvector's, as in "18.6, pgvector 0.8.1", when the store could be opened.

    Raises: BadSettings, SchemaMismatch, StoreUnavailable; each names its fix behind a semicolon.
    """
    try:
        conn = psycopg.connect(dsn, connect_timeout=max(2, round(timeout_s)), autocommit=True)
    except psycopg.ProgrammingError as exc:
        raise BadSettings(
            f"`postgres.dsn` is no connection string ({_line(exc)}); write "
            "postgresql://USER:PASSWORD@HOST:5432/DATABASE",
            key="postgres.dsn",
        ) from exc
    except psycopg.OperationalError as exc:
        raise _refused(exc) from exc
    with conn, translated(timeout_s):
        conn.execute(f"SET statement_timeout = {round(1000 * timeout_s)}")
        if _one(conn, "SELECT pg_is_in_recovery()"):
            raise SchemaMismatch(
                "the PostgreSQL server is a read-only replica; name the primary in `postgres.dsn`"
            )
        if conn.info.server_version // 10000 < MIN_SERVER:
            raise SchemaMismatch(
                f"PostgreSQL {conn.info.server_version // 10000} is too old, Plait needs {MIN_SERVER} or "
                "later; name such a server in `postgres.dsn`"
            )
        version = str(_one(conn, "SHOW server_version")).split()[0]
        return f"{version}, pgvector {_extensions(conn)}"


def _one(conn: psycopg.Connection[Any], statement: str) -> Any:
    row = conn.execute(statement.encode()).fetchone()
    return row[0] if row else None


def _extensions(conn: psycopg.Connection[Any]) -> str:
    """The version of pgvector that is there, or would be. Raises: SchemaMismatch."""
    found = {name: rest for name, *rest in conn.execute(EXTENSION, (list(EXTENSIONS),))}
    for name in EXTENSIONS:
        if name not in found:
            raise SchemaMismatch(
                f"the PostgreSQL server has no extension `{name}`; install it there (the image "
                "pgvector/pgvector has it), or leave `postgres.dsn` empty",
                extension=name,
            )
        _, installed, trusted, creates = found[name]
        if installed is None and not (trusted and creates):
            raise SchemaMismatch(
                f"the database lacks the extension `{name}` and the role of `postgres.dsn` may not create "
                f"it; run `CREATE EXTENSION {name}` there as an owner",
                extension=name,
            )
    default, installed, *_ = found["vector"]
    version = str(installed or default)
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        raise SchemaMismatch(
            f"pgvector {version} is too old, Plait needs 0.8 or later; upgrade it on the server and run "
            "`ALTER EXTENSION vector UPDATE`",
            version=version,
        )
    return version


# Of before API keys there is no such table; a login that may not read it is told of elsewhere.
_KEYS = "SELECT to_regclass('plait.api_key') IS NOT NULL AND has_table_privilege('plait.api_key', 'SELECT')"
_ENDING = """
SELECT name, id, tenant, expires_at FROM plait.api_key
 WHERE revoked_at IS NULL AND expires_at > now() AND expires_at < now() + %s ORDER BY expires_at LIMIT 100
"""


def keys_ending(
    dsn: str, timeout_s: float, within: timedelta
) -> list[tuple[str, str, str, datetime]]:
    """Living API keys that expire `within` this time, the next one first: name, id, tenant, end; at most
    100.

    Raises: StoreUnavailable.
    """
    with (
        translated(timeout_s),
        psycopg.connect(dsn, connect_timeout=max(2, round(timeout_s)), autocommit=True) as conn,
    ):
        conn.execute(f"SET statement_timeout = {round(1000 * timeout_s)}")
        if not _one(conn, _KEYS):
            return []
        return conn.execute(_ENDING, (within,)).fetchall()


def _refused(exc: psycopg.OperationalError) -> PlaitError:
    message = str(exc)
    for sign, fix in REFUSALS:
        missing = not sign.endswith(" ") or "does not exist" in message
        if sign in message and missing:
            return BadSettings(f"PostgreSQL refuses us ({_line(exc)}); {fix}", key="postgres.dsn")
    return StoreUnavailable(f"PostgreSQL cannot be reached ({_line(exc)}); {START}")


def _line(exc: Exception) -> str:
    """The server's last words, in which a password never stands."""
    lines = str(exc).strip().splitlines()
    return lines[-1].strip().replace("; ", ", ")[:300] if lines else type(exc).__name__
