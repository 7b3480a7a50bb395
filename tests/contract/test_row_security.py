"""The second wall, by SQL alone: what the role `plait_app` reaches, table by table, of one tenant.

Every table of the schema is enumerated and filled, so that a new one can't be forgotten: it must have
row security and a row that belongs to a repository, or be out of the application's reach.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors as pg
from psycopg import sql
from psycopg.types.json import Json

from etl.truth import open as open_truth
from plait.domain.errors import PlaitError, SchemaMismatch
from plait.settings import Settings, load
from plait.supervisor.account import unprivileged
from plait.supervisor.lease import wait_stopped
from tests.contract.conftest import end_sessions
from tests.processes import LIMIT_S
from vector.connection import roles
from vector.connection.bulk import insert_rows
from vector.connection.pool import APP_ROLE, Connection, Database
from vector.server import embedded, pgdata
from vector.store import Store

# Of no tenant: the index's one model, and what the schema is made of (which is out of reach).
SHARED = {"embedding_space"}
UNREACHABLE = {"schema_migration", "dead_letter", "api_key", "api_key_secret"}
DEFINERS = {"similar_names", "similar_memories", "tagged_memories"}

Conn = psycopg.Connection[tuple[Any, ...]]
SCOPES = {"default": ("web", "api"), "acme": ("acme@web",), "zeta": ("zeta@web",)}


@pytest.fixture
def owner(store: Store, truth_dsn: str) -> Iterator[Conn]:
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        yield conn


@pytest.fixture
def app(store: Store, truth_dsn: str) -> Iterator[Conn]:
    """A connection as serving has it, of no tenant yet."""
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait,public") as conn:
        conn.execute(f"SET ROLE {APP_ROLE}")
        yield conn


def tables(conn: Conn) -> dict[str, bool]:
    """Every table of the schema, and whether it has row security."""
    found = conn.execute(
        "SELECT relname, relrowsecurity FROM pg_class"
        " WHERE relnamespace = 'plait'::regnamespace AND relkind IN ('r', 'p', 'f')"
    )
    return dict(found.fetchall())


def may(conn: Conn, table: str, privilege: str) -> bool:
    row = conn.execute(
        "SELECT has_table_privilege(%(r)s, %(t)s, %(p)s)"
        " OR %(p)s IN ('SELECT', 'INSERT', 'UPDATE') AND has_any_column_privilege(%(r)s, %(t)s,"
        " CASE WHEN %(p)s IN ('SELECT', 'INSERT', 'UPDATE') THEN %(p)s ELSE 'SELECT' END)",
        {"r": APP_ROLE, "t": f"plait.{table}", "p": privilege},
    ).fetchone()
    return bool(row and row[0])


# -- what is there ---------------------------------------------------------------------------------------


def test_every_table_within_reach_has_row_security(owner: Conn) -> None:
    reachable = {
        table
        for table in tables(owner)
        for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES")
        if may(owner, table, privilege)
    }
    open_ones = {table for table, secured in tables(owner).items() if not secured}
    assert reachable & open_ones == SHARED
    assert set(tables(owner)) - reachable == UNREACHABLE
    without_policy = owner.execute(
        "SELECT relname FROM pg_class c WHERE relnamespace = 'plait'::regnamespace"
        " AND relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)"
    ).fetchall()
    assert without_policy == []


def test_nothing_reads_round_the_policies(owner: Conn) -> None:
    """Views and functions of the owner's pass row security by: only functions that ask for the tenant, and no view
    that does not read with its reader's rights."""
    views = owner.execute(
        "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'plait'::regnamespace"
        " AND relkind IN ('v', 'm')"
    ).fetchall()
    assert sorted(views) == [
        ("file_graph", ["security_invoker=true"]), ("source_file", ["security_invoker=true"])
    ]  # fmt: skip
    definers = owner.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'plait'::regnamespace AND prosecdef"
    ).fetchall()
    assert {name for (name,) in definers} == DEFINERS
    role = owner.execute(
        "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb,"
        " EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid) FROM pg_roles r"
        " WHERE rolname = %s",
        (APP_ROLE,),
    ).fetchone()
    assert role == (False,) * 6


def test_the_application_deletes_nothing_and_writes_no_code(owner: Conn) -> None:
    for table in tables(owner):
        for privilege in ("DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"):
            assert not may(owner, table, privilege), (table, privilege)
    read_only = {
        "files", "file_version", "file_member", "graph_part", "graph_member", "symbol_name", "revision_log",
        "segment_dead", "compaction",
        "compaction_step", "forgotten", "embedding_space",
    }  # fmt: skip
    for table in read_only:
        assert not may(owner, table, "INSERT"), table
        assert not may(owner, table, "UPDATE"), table


# -- what is seen, and what can be written -----------------------------------------------------------------

_VALUES: dict[str, Any] = {
    "text": "x", "bytea": b"x", "jsonb": "{}", "boolean": False,
    "integer": 1, "bigint": 1, "real": 0.5, "double precision": 0.5,
}  # fmt: skip
# Where a CHECK or a foreign key wants a certain value.
_CHECKED = {"label": "Issue", "status": "passed", "action": "pin", "relation": "MENTIONS"}
_FIRST = ("episode", "compaction", "segment")


def fill(conn: Conn) -> dict[str, list[int]]:
    """A row in every table for every repository of `SCOPES`; the repositories' ids by tenant."""
    out: dict[str, list[int]] = {}
    names = [t for t in tables(conn) if t not in ("repository", "item", "segment_dead")]
    names.sort(key=lambda t: (t not in _FIRST, t))
    for tenant, repos in SCOPES.items():
        for repo in repos:
            row = conn.execute(
                "INSERT INTO repository (name, tenant) VALUES (%s, %s) RETURNING id",
                (repo, tenant),
            ).fetchone()
            assert row
            out.setdefault(tenant, []).append(row[0])
            given = {**_CHECKED, "tenant": tenant, "repo_id": row[0], "request_id": repo}
            for table in names:
                if "repo_id" in columns(conn, table, every=True):
                    given |= insert(conn, table, given)
            conn.execute(
                "INSERT INTO segment_dead (segment_id, rev, docs) VALUES (%s, 1, 'x')",
                (given["segment_id"],),
            )
    return out


def insert(conn: Conn, table: str, given: dict[str, Any]) -> dict[str, Any]:
    """One row; returns what others refer to it by."""
    values = {}
    for name, kind in columns(conn, table).items():
        if name in given:
            values[name] = given[name]
        elif name == "collection":
            values[name] = table if table != "segment" else "memories"
        elif name == "kind" and table in ("outbox", "dead_letter"):
            values[name] = "index"
        elif kind == "uuid":
            values[name] = uuid4()
        elif kind.startswith("timestamp"):
            values[name] = datetime.now(UTC)
        elif kind.endswith("[]"):
            values[name] = "{}"
        else:
            values[name] = _VALUES[kind]
        if name == "event_id":
            values[name] = given["repo_id"]
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join([sql.Placeholder()] * len(values)),
    )
    cursor = conn.execute(statement, list(values.values()))
    row = cursor.fetchone()
    assert row
    assert cursor.description
    made = dict(zip([c.name for c in cursor.description], row, strict=True))
    return {f"{table}_id": made["id"]} if table in _FIRST else {}


def columns(conn: Conn, table: str, *, every: bool = False) -> dict[str, str]:
    """Columns that a row must give, or all, with their types."""
    found = conn.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " AND (%s OR attname = 'tenant' OR attnotnull AND NOT atthasdef AND attidentity = '')",
        (f"plait.{table}", every),
    )
    return dict(found.fetchall())


def be(app: Conn, tenant: str) -> None:
    app.execute("SELECT set_config('plait.tenant', %s, false)", (tenant,))


def test_each_table_shows_a_tenant_its_own_rows(owner: Conn, app: Conn) -> None:
    repos = fill(owner)
    for table in sorted(set(tables(owner)) - SHARED - UNREACHABLE):
        count = f"SELECT count(*) FROM {table}"
        by_repo = f"SELECT repo_id, count(*) FROM {table} GROUP BY 1"
        if table == "repository":
            by_repo = by_repo.replace("repo_id", "id")
        if table == "segment_dead":
            by_repo = (
                "SELECT s.repo_id, count(*) FROM segment_dead d"
                " JOIN segment s ON s.id = d.segment_id GROUP BY 1"
            )
        everything: dict[int, int] = dict(owner.execute(by_repo).fetchall())
        assert set(everything) == {i for ids in repos.values() for i in ids}, table
        for tenant, ids in repos.items():
            be(app, tenant)
            assert dict(app.execute(by_repo).fetchall()) == {i: everything[i] for i in ids}, table
        for nobody in ("", "nobody", "%", "default,acme"):
            be(app, nobody)
            assert app.execute(by_repo).fetchall() == [], table
            if may(owner, table, "SELECT") and table != "file_version":
                assert app.execute(count).fetchone() == (0,), table


def test_without_a_tenant_nothing_is_there(owner: Conn, app: Conn) -> None:
    fill(owner)
    for table in sorted(set(tables(owner)) - SHARED - UNREACHABLE):
        column = (
            "id"
            if table == "repository"
            else "segment_id"
            if table == "segment_dead"
            else "repo_id"
        )
        assert app.execute(f"SELECT {column} FROM {table}").fetchall() == [], table
    assert app.execute(
        "SELECT * FROM similar_names(ARRAY(SELECT 1), ARRAY(SELECT 1), 'x', 5)"
    ).fetchall() == []  # fmt: skip


def test_what_is_out_of_reach_says_so(owner: Conn, app: Conn) -> None:
    be(app, "acme")
    for table in UNREACHABLE:
        with pytest.raises(pg.InsufficientPrivilege):
            app.execute(f"SELECT FROM {table}")
    with pytest.raises(pg.InsufficientPrivilege):
        app.execute("SELECT facts FROM file_version")


def test_no_row_is_written_for_another_tenant(owner: Conn, app: Conn) -> None:
    """Another's row, sent again as it stands, is refused as such: before any key could clash."""
    repos = fill(owner)
    (theirs,) = repos["zeta"]
    be(app, "acme")
    for table in sorted(t for t in tables(owner) if may(owner, t, "INSERT")):
        names = [c for c in columns(owner, table, every=True) if not generated(owner, table, c)]
        if table == "repository":
            names = ["name", "tenant"]
        key = "id" if table == "repository" else "repo_id"
        row = owner.execute(
            f"SELECT row_to_json(t) FROM {table} t WHERE {key} = %s LIMIT 1", (theirs,)
        ).fetchone()
        assert row, table
        listed = ", ".join(names)
        with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
            app.execute(
                f"INSERT INTO {table} ({listed})"
                f" SELECT {listed} FROM json_populate_record(NULL::{table}, %s)",
                (Json(row[0]),),
            )


def generated(conn: Conn, table: str, column: str) -> bool:
    row = conn.execute(
        "SELECT attidentity <> '' OR attgenerated <> '' FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attname = %s",
        (f"plait.{table}", column),
    ).fetchone()
    return bool(row and row[0])


def test_no_row_is_changed_or_given_away(owner: Conn, app: Conn) -> None:
    repos = fill(owner)
    (mine,), (theirs,) = repos["acme"], repos["zeta"]
    be(app, "acme")
    for table in sorted(t for t in tables(owner) if may(owner, t, "UPDATE")):
        own = app.execute(f"UPDATE {table} SET repo_id = repo_id").rowcount
        code = "AND collection <> 'files'" if table == "item" else ""
        counted = owner.execute(
            f"SELECT count(*) FROM {table} WHERE repo_id = %s {code}", (mine,)
        ).fetchone()
        assert (own,) == counted, table
        assert own > 0, table
        with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
            app.execute(f"UPDATE {table} SET repo_id = %s", (theirs,))


def test_code_is_not_written_through_its_parent(owner: Conn, app: Conn) -> None:
    (mine,) = fill(owner)["acme"]
    be(app, "acme")
    with pytest.raises(pg.InsufficientPrivilege, match="not_code"):
        app.execute(
            "INSERT INTO item (id, repo_id, collection, kind, content_hash, content)"
            " VALUES (%s, %s, 'files', 'x', 'x', 'x')",
            (uuid4(), mine),
        )
    with pytest.raises(pg.InsufficientPrivilege):
        app.execute("UPDATE item SET collection = 'files' WHERE collection = 'memories'")


def test_similar_names_are_the_tenants_whatever_is_asked(owner: Conn, app: Conn) -> None:
    repos = fill(owner)
    everyone = [i for ids in repos.values() for i in ids]
    for repo_id in everyone:
        owner.execute("INSERT INTO symbol_name VALUES (%s, 'open_socket')", (repo_id,))
        owner.execute(
            "INSERT INTO files (id, repo_id, rev_from, path, collection, kind, name, content_hash, content)"
            " VALUES (%s, %s, 1, 'x', 'files', 'function', 'open_socket', 'x', 'x')",
            (uuid4(), repo_id),
        )
    for wanted in ("open_socket", "open_sokcet"):
        for tenant, ids in repos.items():
            be(app, tenant)
            found = app.execute(
                "SELECT repo_id FROM similar_names(%s, %s, %s, 50)",
                (everyone, [1] * len(everyone), wanted),
            ).fetchall()
            assert sorted(i for (i,) in found) == sorted(ids)
        be(app, "")
        assert app.execute(
            "SELECT FROM similar_names(%s, %s, %s, 50)", (everyone, [1] * len(everyone), wanted)
        ).fetchall() == []  # fmt: skip


def test_similar_memories_are_the_tenants_whatever_is_asked(owner: Conn, app: Conn) -> None:
    repos = fill(owner)
    owner.execute("UPDATE memories SET sketch = '{7}'")
    for tenant, ids in repos.items():
        for repo_id in [i for other in repos.values() for i in other]:
            be(app, tenant)
            found = app.execute("SELECT id FROM similar_memories(%s, '{7}', 5, 50)", (repo_id,))
            assert len(found.fetchall()) == (repo_id in ids)
            be(app, "")
            found = app.execute("SELECT id FROM similar_memories(%s, '{7}', 5, 50)", (repo_id,))
            assert found.fetchall() == []


def test_memories_by_tag_are_the_tenants_whatever_is_asked(owner: Conn, app: Conn) -> None:
    repos = fill(owner)
    owner.execute("UPDATE memories SET tags = '{a, b}'")
    everyone = [i for ids in repos.values() for i in ids]
    for any_of, all_of, there in ((["a"], [], 1), ([], ["a", "b"], 1), ([], ["a", "c"], 0)):
        asked = (everyone, any_of, all_of)
        for tenant, ids in repos.items():
            be(app, tenant)
            found = app.execute("SELECT id FROM tagged_memories(%s, %s, %s, 50)", asked).fetchall()
            assert len(found) == there * len(ids)
        be(app, "")
        assert app.execute("SELECT FROM tagged_memories(%s, %s, %s, 50)", asked).fetchall() == []


# -- the pool that serving works with ------------------------------------------------------------------------

NAMES = "SELECT name FROM repository ORDER BY name"


async def test_connections_change_tenants_and_none_is_mixed_up(owner: Conn, store: Store) -> None:
    fill(owner)

    async def ask(tenant: str) -> None:
        rows = await store.app.rows(NAMES, {}, tenant=tenant)
        assert [name for (name,) in rows] == sorted(SCOPES[tenant])
        async with store.app.transaction(tenant) as conn:
            cursor = await conn.execute(NAMES)
            assert [name for (name,) in await cursor.fetchall()] == sorted(SCOPES[tenant])

    await asyncio.gather(*(ask(tenant) for tenant in list(SCOPES) * 20))


async def break_off(store: Store, tenant: str) -> None:
    async with store.app.transaction(tenant) as conn:
        await conn.execute("INSERT INTO repository (name, tenant) VALUES ('q', %s)", (tenant,))
        raise ZeroDivisionError


async def test_an_error_leaves_the_tenant_what_it_was(owner: Conn, store: Store) -> None:
    fill(owner)
    for tenant in list(SCOPES) * 3:
        with pytest.raises(PlaitError):
            await store.app.rows("SELECT nonsense", {}, tenant=tenant)
        with pytest.raises(ZeroDivisionError):
            await break_off(store, tenant)
        rows = await store.app.rows(NAMES, {}, tenant=tenant)
        assert [name for (name,) in rows] == sorted(SCOPES[tenant])


async def test_connections_that_were_lost_come_back_inside_the_wall(
    owner: Conn, store: Store
) -> None:
    fill(owner)
    for tenant in SCOPES:
        await store.app.rows(NAMES, {}, tenant=tenant)
        end_sessions(owner, "datname = current_database()")
        rows = await store.app.rows(NAMES, {}, tenant=tenant)
        assert [name for (name,) in rows] == sorted(SCOPES[tenant])
        async with store.app.connection(tenant) as conn:
            cursor = await conn.execute("SELECT current_user, current_setting('plait.tenant')")
            assert await cursor.fetchone() == (APP_ROLE, tenant)


async def test_a_call_without_a_tenant_is_a_bug(store: Store) -> None:
    with pytest.raises(RuntimeError, match="tenant"):
        await store.app.rows(NAMES, {}, tenant="")
    with pytest.raises(RuntimeError, match="tenant"):
        await store.db.rows(NAMES, {}, "acme")


COLUMNS = (("repo_id", "int4"), ("name", "text"), ("label", "text"), ("recorded_at", "timestamptz"))


async def insert_in_savepoint(conn: Connection, rows: list[tuple[Any, ...]]) -> None:
    async with conn.transaction():
        await insert_rows(conn, "memory_node", COLUMNS, rows)


async def test_rows_go_through_the_wall_in_batches(owner: Conn, store: Store) -> None:
    repos = fill(owner)
    (mine,), (theirs,) = repos["acme"], repos["zeta"]
    now = datetime.now(UTC)

    def row(repo: int, n: int) -> tuple[Any, ...]:
        return (repo, f"issue/{n:04}", "Issue", now)

    async with store.app.transaction("acme") as conn:
        await insert_rows(conn, "memory_node", COLUMNS, [row(mine, n) for n in range(600)])
        await insert_rows(conn, "memory_node", COLUMNS, [])
        mixed = [row(mine, 9998), row(theirs, 9999)]
        with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
            await insert_in_savepoint(conn, mixed)
        # What was refused is not left to the next call, nor is what went through.
        await insert_rows(conn, "memory_node", COLUMNS, [row(mine, 1000)])
    found = owner.execute("SELECT name FROM memory_node WHERE name LIKE 'issue/%' ORDER BY ctid")
    assert [name for (name,) in found] == [f"issue/{n:04}" for n in (*range(600), 1000)]


# -- setting it up -------------------------------------------------------------------------------------------


async def test_a_login_that_may_not_make_the_role_is_told_what_to_run(
    truth_settings: Settings, truth_dsn: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roles, "APP_ROLE", "plait_nobody")
    monkeypatch.setattr(roles, "_ROLE", sql.Identifier("plait_nobody"))
    conn = await Database(truth_dsn, truth_settings).dedicated()
    try:
        with pytest.raises(SchemaMismatch, match="CREATE ROLE plait_nobody NOLOGIN"):
            await roles.ensure(conn, ("public",))
    finally:
        await conn.close()


async def test_a_login_that_does_not_own_the_tables_is_refused(
    truth_settings: Settings, truth_dsn: str, store: Store
) -> None:
    conn = await Database(truth_dsn, truth_settings).dedicated()
    try:
        await roles.check(conn)
        await conn.execute(f"SET ROLE {APP_ROLE}")
        with pytest.raises(SchemaMismatch, match="log in as their owner"):
            await roles.check(conn)
    finally:
        await conn.close()


def test_a_data_folder_from_before_gets_the_role(fresh_home: Path) -> None:
    settings = load(environ={"PLAIT_HOME": str(fresh_home)})
    asyncio.run(open_and_close(settings))
    folder = fresh_home / "postgres"
    assert wait_stopped(folder, LIMIT_S)
    tools = pgdata.reachable(embedded.binaries(), folder, unprivileged(""))
    pgdata.single(tools, folder / "data", "plait", f"REVOKE {APP_ROLE} FROM plait;")
    with pytest.raises(SchemaMismatch, match=f"GRANT {APP_ROLE}"):
        asyncio.run(open_and_close(settings))
    assert wait_stopped(folder, LIMIT_S)
    (folder / "data" / "plait-roles").unlink()
    asyncio.run(open_and_close(settings))


async def open_and_close(settings: Settings) -> None:
    store = await open_truth(settings)
    await store.app.rows("SELECT 1", {}, tenant="default")
    await store.close()
