"""`plait doctor`: it sees what runs and what is wrong, tells no secret, starts nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plait.settings import Settings, load
from plait.supervisor.lease import wait_stopped
from plait.supervisor.state import read
from server.doctor import Severity, as_json, inspect, render
from tests.processes import LIMIT_S, PATIENT, gone


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
            }
        )
        report = inspect(settings)
        assert [store.status for store in report.stores] == ["unreachable", "unreachable"]
        assert report.stores[0].where == "127.0.0.1:1/code"
        assert secret not in render(report) + as_json(report)
        assert not report.healthy
