"""Numbered SQL migrations, applied once each under an advisory lock, with their checksums kept."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

from psycopg import errors as pg

from plait.domain.errors import SchemaMismatch
from vector.connection import roles, turn_kinds
from vector.connection.pool import Connection

# Any constant will do, so long as every Plait takes the same one.
LOCK = 0x506C616974  # "Plait"
MIN_PGVECTOR = (0, 8)
MIN_SERVER = 15
EXTENSIONS = ("vector", "pg_trgm")
# Of a migration: it locks tables one after the other, and who reads them meanwhile may lock them in another order.
TRIES = 5

# What a migration does beside its SQL, in the same transaction.
FILLS = {15: turn_kinds.fill}

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    body: str

    @property
    def checksum(self) -> bytes:
        """BLAKE2b of the text with line ends as LF, so that a checkout's settings don't matter."""
        text = self.body.replace("\r\n", "\n").encode()
        return hashlib.blake2b(text, digest_size=16).digest()


def migrations() -> list[Migration]:
    """The migrations this version ships, in order."""
    found = []
    for entry in resources.files("vector.sql").iterdir():
        if match := _NAME.fullmatch(entry.name):
            found.append(Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    return sorted(found, key=lambda m: m.number)


async def migrate(conn: Connection, shipped: list[Migration] | None = None) -> tuple[str, ...]:
    """Bring the database up to date; return the schemas that hold the extensions.

    Several processes may call this at once: one applies, the others wait. A new migration and its
    record are one transaction.

    Raises:
        SchemaMismatch: the server or pgvector is too old, an extension is missing, or a recorded
            migration differs from the shipped one or is unknown to this version; or the role of
            `postgres.dsn` may not make `plait_app`, or is not the owner of the tables.
    """
    await _check_server(conn)
    async with conn.transaction():  # the lock is the session's; the other's migration may take long
        await conn.execute("SET LOCAL statement_timeout = 0")
        await conn.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
    try:
        schemas = await _extensions(conn)
        await conn.execute("CREATE SCHEMA IF NOT EXISTS plait")
        await _set_path(conn, schemas)
        await roles.ensure(conn, schemas)
        await _apply(conn, migrations() if shipped is None else shipped)
        await roles.check(conn)
        return schemas
    except pg.InsufficientPrivilege as exc:
        raise SchemaMismatch(
            f"the role of `postgres.dsn` may not set the schema up ({exc.diag.message_primary}); "
            "grant it CREATE on the database"
        ) from exc
    finally:
        if not conn.broken:
            await conn.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))


async def _check_server(conn: Connection) -> None:
    version = conn.info.server_version // 10000
    if version < MIN_SERVER:
        raise SchemaMismatch(
            f"PostgreSQL {version} is too old; Plait needs {MIN_SERVER} or later at `postgres.dsn`",
            version=version,
        )


async def _extensions(conn: Connection) -> tuple[str, ...]:
    """Make sure of the extensions; return their schemas."""
    for name in EXTENSIONS:
        try:
            await conn.execute(f"CREATE EXTENSION IF NOT EXISTS {name} WITH SCHEMA public")
        except (pg.UndefinedFile, pg.FeatureNotSupported) as exc:
            raise SchemaMismatch(
                f"the PostgreSQL server has no extension `{name}`; install it there "
                "(the image pgvector/pgvector has it), or leave `postgres.dsn` empty",
                extension=name,
            ) from exc
        except pg.InsufficientPrivilege as exc:
            raise SchemaMismatch(
                f"the role of `postgres.dsn` may not create the extension `{name}`; "
                f"run `CREATE EXTENSION {name}` there as an owner",
                extension=name,
            ) from exc
    cursor = await conn.execute(
        "SELECT e.extname, e.extversion, n.nspname FROM pg_extension e"
        " JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = ANY(%s)",
        (list(EXTENSIONS),),
    )
    found = {name: (version, schema) for name, version, schema in await cursor.fetchall()}
    version = found["vector"][0]
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        raise SchemaMismatch(
            f"pgvector {version} is too old, Plait needs 0.8 or later; upgrade it on the server and run "
            "`ALTER EXTENSION vector UPDATE`",
            version=version,
        )
    return tuple(dict.fromkeys((*(schema for _, schema in found.values()), "public")))


async def _set_path(conn: Connection, schemas: tuple[str, ...]) -> None:
    path = ", ".join('"' + s.replace('"', '""') + '"' for s in ("plait", *schemas))
    await conn.execute("SELECT set_config('search_path', %s, false)", (path,))


async def _apply(conn: Connection, shipped: list[Migration]) -> None:
    await conn.execute(
        "CREATE TABLE IF NOT EXISTS plait.schema_migration ("
        " number integer PRIMARY KEY, name text NOT NULL, checksum bytea NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT now())"
    )
    cursor = await conn.execute("SELECT number, name, checksum FROM plait.schema_migration")
    recorded = {
        number: (name, bytes(checksum)) for number, name, checksum in await cursor.fetchall()
    }
    _compare(recorded, {m.number: m for m in shipped})
    for migration in shipped:
        if migration.number in recorded:
            continue
        for more in reversed(range(TRIES)):
            try:
                await _apply_one(conn, migration)
                break
            except pg.DeadlockDetected:
                if not more:
                    raise


async def _apply_one(conn: Connection, migration: Migration) -> None:
    async with conn.transaction():
        await conn.execute("SET LOCAL statement_timeout = 0")
        await conn.execute(migration.body.encode())
        if (fill := FILLS.get(migration.number)) is not None:
            await fill(conn)
        await conn.execute(
            "INSERT INTO plait.schema_migration (number, name, checksum) VALUES (%s, %s, %s)",
            (migration.number, migration.name, migration.checksum),
        )


def _compare(recorded: dict[int, tuple[str, bytes]], shipped: dict[int, Migration]) -> None:
    """Raises: SchemaMismatch, naming the first migration that differs or is unknown."""
    for number, (name, checksum) in sorted(recorded.items()):
        ours = shipped.get(number)
        if ours is None:
            raise SchemaMismatch(
                f"the database has migration {number:04}_{name}, which this version does not know; "
                "it was set up by a newer Plait: upgrade this one, or use another database",
                migration=f"{number:04}_{name}",
            )
        if ours.checksum != checksum:
            raise SchemaMismatch(
                f"migration {number:04}_{name} in the database differs from the one this version ships; "
                "use the version that made the database, or another database",
                migration=f"{number:04}_{name}",
            )
