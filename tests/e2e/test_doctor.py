"""`plait doctor`: it sees what runs and what is wrong, tells no secret, starts nothing."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from etl.truth import open as open_truth
from plait.domain.access import ALL_VERBS, Caller
from plait.domain.keys import ApiKey
from plait.settings import Settings, load
from plait.supervisor.lease import wait_stopped
from plait.supervisor.state import read
from server.doctor import Severity, as_json, inspect, render
from tests.processes import LIMIT_S, PATIENT, gone, wait_until


def settings_of(home: Path) -> Settings:
    return load(environ={**PATIENT, "PLAIT_HOME": str(home)})


def test_a_home_that_was_never_used_stays_so(fresh_home: Path) -> None:
    report = inspect(settings_of(fresh_home))
    assert [store.status for store in report.stores] == ["unused", "unused"]
    assert not fresh_home.exists()
    assert report.healthy
    assert {"plait", "python", "postgresql", "pgvector", "arcadedb"} <= set(report.versions)


def test_a_running_server_is_described(store_user: Callable[..., Any], fresh_home: Path) -> None:
    user = store_user("vector")
    pid, dsn = user.answer()
    report = inspect(settings_of(fresh_home))
    store = report.stores[0]
    assert (store.status, store.pid) == ("running", pid)
    assert store.version.startswith("18.")
    assert store.rss_bytes > 2**20
    assert store.data_bytes > 2**20
    assert store.where in dsn.replace("host=", "").replace(" port=", ":")
    password = (fresh_home / "postgres" / "password").read_text().strip()
    assert password not in render(report) + as_json(report)
    assert json.loads(as_json(report))["stores"][0]["pid"] == pid
    assert report.healthy
    (fresh_home / "postgres" / "password").write_text("wr0ng")
    (finding,) = inspect(settings_of(fresh_home)).findings
    assert "runs and does not answer us" in finding.what
    assert "password authentication failed" in finding.what
    (fresh_home / "postgres" / "password").write_text(password)
    user.close()
    assert wait_stopped(fresh_home / "postgres", LIMIT_S)
    assert inspect(settings_of(fresh_home)).stores[0].status == "stopped"


def test_what_is_wrong_is_named_with_its_fix(
    store_user: Callable[..., Any], fresh_home: Path
) -> None:
    user = store_user("vector")
    pid, _ = user.answer()
    folder = fresh_home / "postgres"
    state = read(folder)
    assert state is not None
    assert state.keeper is not None
    for victim in (state.keeper.pid, pid):
        os.kill(victim, signal.SIGKILL)
    user.kill()
    # A server that is still dying is an orphan that runs: another finding.
    assert gone(pid)
    assert wait_stopped(folder, LIMIT_S)
    (folder / "password").chmod(0o644)
    report = inspect(settings_of(fresh_home))
    found = {finding.what: finding for finding in report.findings}
    assert any("was killed" in what for what in found)
    exposed = found[f"others can read {folder / 'password'}"]
    assert exposed.severity is Severity.PROBLEM
    assert "chmod 600" in exposed.fix
    assert not report.healthy
    assert "chmod 600" in render(report)


def test_a_failed_start_is_remembered(store_user: Callable[..., Any], fresh_home: Path) -> None:
    user = store_user("vector")
    user.answer()
    user.close()
    assert wait_stopped(fresh_home / "postgres", LIMIT_S)
    version = fresh_home / "postgres" / "data" / "PG_VERSION"
    version.write_text("9\n")
    failing = store_user("vector")
    assert failing.process.wait(LIMIT_S) != 0
    report = inspect(settings_of(fresh_home))
    assert report.stores[0].status == "failed"
    assert any("made by PostgreSQL 9" in finding.what for finding in report.findings)


def test_external_stores_are_shown_without_their_passwords(fresh_home: Path) -> None:
    secret = "hunter2hunter2"
    for dsn in (
        f"postgresql://someone:{secret}@127.0.0.1:1/code",
        f"host=127.0.0.1 port=1 dbname=code user=someone password={secret}",
    ):
        settings = load(
            environ={
                "PLAIT_HOME": str(fresh_home),
                "PLAIT_POSTGRES__DSN": dsn,
                "PLAIT_GRAPH__URI": f"bolt://neo4j:{secret}@127.0.0.1:2",
                "PLAIT_GRAPH__PASSWORD": secret,
            }
        )
        report = inspect(settings)
        assert [store.status for store in report.stores] == ["unreachable", "refused"]
        assert report.stores[0].where == "127.0.0.1:1/code"
        assert secret not in render(report) + as_json(report)
        assert not report.healthy


# -- an external PostgreSQL, which is asked ---------------------------------------------------------------


@pytest.fixture
def open_postgres(tcp_postgres_dsn: str, plait_home: Path) -> Iterator[dict[str, str]]:
    """The second PostgreSQL with its door open to every role and database, as others have it."""
    where = conninfo_to_dict(tcp_postgres_dsn)
    data = plait_home / "second" / "postgres" / "data"
    door, pid = data / "pg_hba.conf", int((data / "postmaster.pid").read_text().split()[0])
    before = door.read_text()
    door.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
    os.kill(pid, signal.SIGHUP)
    missing = make_conninfo(tcp_postgres_dsn, dbname="missing")
    wait_until(lambda: "does not exist" in refusal(missing))
    yield {key: str(value) for key, value in where.items()}
    door.write_text(before)
    os.kill(pid, signal.SIGHUP)
    wait_until(lambda: "pg_hba.conf" in refusal(missing))


def refusal(dsn: str) -> str:
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(dsn)
    return str(caught.value)


REFUSED = {
    "a wrong password": ({"password": "wr0ng"}, "password authentication failed", "mend the user"),
    "no database": ({"dbname": "missing"}, 'database "missing" does not exist', "create it"),
    "no role": ({"user": "nobody", "password": "x"}, "password authentication failed", "mend"),
    "no pgvector": (
        {"dbname": "template1"},
        "lacks the extension `vector`",
        "CREATE EXTENSION vector",
    ),
    "no password": ({"password": None}, "no password supplied", "put the password"),
}


@pytest.mark.parametrize(("change", "what", "fix"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_an_external_postgresql_is_found(
    change: dict[str, Any], what: str, fix: str, open_postgres: dict[str, str], fresh_home: Path
) -> None:
    dsn = make_conninfo(**{**open_postgres, **change})
    report = inspect(
        load(environ={**PATIENT, "PLAIT_HOME": str(fresh_home), "PLAIT_POSTGRES__DSN": dsn})
    )
    assert report.stores[0].status == "refused"
    (finding,) = report.findings
    assert what in finding.what
    assert fix in finding.fix
    assert open_postgres["password"] not in render(report) + as_json(report)
    assert not fresh_home.exists()


def test_an_external_postgresql_that_answers_is_well(
    tcp_postgres_dsn: str, fresh_home: Path
) -> None:
    environ = {**PATIENT, "PLAIT_HOME": str(fresh_home), "PLAIT_POSTGRES__DSN": tcp_postgres_dsn}
    report = inspect(load(environ=environ))
    assert (report.stores[0].status, report.findings) == ("answers", ())
    assert "pgvector 0." in report.stores[0].version
    assert not fresh_home.exists()


def test_a_dsn_that_is_none_is_named(fresh_home: Path) -> None:
    environ = {"PLAIT_HOME": str(fresh_home), "PLAIT_POSTGRES__DSN": "nonsense"}
    report = inspect(load(environ=environ))
    assert "is no connection string" in report.findings[0].what


@pytest.mark.parametrize("name", ["token", "mcp.token", "tls/key.pem", "audit.jsonl"])
def test_a_file_that_lets_its_reader_in_is_private(fresh_home: Path, name: str) -> None:
    path = fresh_home / "server" / name
    path.parent.mkdir(parents=True)
    path.write_text("x")
    path.chmod(0o640)
    (finding,) = inspect(settings_of(fresh_home)).findings
    assert (finding.severity, finding.what) == (Severity.PROBLEM, f"others can read {path}")
    assert f"chmod 600 {path}" in finding.fix
    path.chmod(0o600)
    assert inspect(settings_of(fresh_home)).healthy


def test_an_audit_log_that_cannot_be_written_is_a_problem(fresh_home: Path) -> None:
    path = fresh_home / "server" / "audit.jsonl"
    path.mkdir(parents=True, mode=0o700)
    found = [one.what for one in inspect(settings_of(fresh_home)).findings]
    assert [what for what in found if "can't be written: it is no file" in what]
    path.rmdir()
    path.symlink_to(fresh_home / "elsewhere")
    (finding,) = inspect(settings_of(fresh_home)).findings
    assert "is a link" in finding.what
    off = load(environ={**PATIENT, "PLAIT_HOME": str(fresh_home), "PLAIT_AUDIT__ENABLED": "false"})
    assert inspect(off).healthy


def test_keys_that_end_soon_are_told(tcp_postgres_dsn: str, fresh_home: Path) -> None:
    settings = load(
        environ={
            **PATIENT,
            "PLAIT_HOME": str(fresh_home),
            "PLAIT_POSTGRES__DSN": tcp_postgres_dsn,
        }
    )
    assert inspect(settings).stores[0].status == "answers"
    asyncio.run(_keys(settings))
    try:
        report = inspect(settings)
    finally:
        with psycopg.connect(tcp_postgres_dsn, autocommit=True) as conn:
            conn.execute("DELETE FROM plait.api_key WHERE id LIKE 'key-%' AND tenant = 'acme'")
    told = [one.what for one in report.findings if "API key" in one.what]
    assert len(told) == 1
    assert "'soon' (key-soon) of acme expires" in told[0]
    assert report.healthy


async def _keys(settings: Settings) -> None:
    """One that ends soon, and others."""
    store = await open_truth(settings)
    now = datetime.now(UTC)
    for name, end in (
        ("soon", now + timedelta(days=3)), ("later", now + timedelta(days=30)), ("never", None),
        ("over", now - timedelta(days=1)),
    ):  # fmt: skip
        key = ApiKey(Caller(f"key-{name}", ALL_VERBS, "acme"), name, now, expires_at=end)
        await store.keys.add(key, hashlib.sha256(name.encode()).digest())
    await store.close()
