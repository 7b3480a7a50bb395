"""The embedded servers: shared, left, killed at every joint, started from odd places."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import neo4j
import psutil
import psycopg
import pytest

from graph.server import embedded as graph
from graph.server.arcadechild import ArcadeChild
from plait.domain.errors import EmbeddedServerFailed, HomeUnusable, SchemaMismatch
from plait.settings import Settings, load
from plait.supervisor import process
from plait.supervisor.child import StartAgain
from plait.supervisor.files import open_log, private_folder
from plait.supervisor.keeper import BACKOFF_S
from plait.supervisor.lease import wait_stopped
from plait.supervisor.state import read
from tests.processes import LIMIT_S, PATIENT, gone, wait_until
from vector.server import embedded as postgres

KINDS = ["vector", "graph"]
FOLDER = {"vector": "postgres", "graph": "graph"}
Users = Callable[..., Any]  # starts a StoreUser of tests/conftest.py


def settings_of(home: Path) -> Settings:
    return load(environ={**PATIENT, "PLAIT_HOME": str(home)})


def keeper_of(folder: Path) -> int:
    state = read(folder)
    assert state is not None
    assert state.keeper is not None
    return state.keeper.pid


def renewed(user: Any, old: int) -> int:
    """The pid of the server that takes the killed one's place: a signal needs a moment to arrive."""
    now = old

    def another() -> bool:
        nonlocal now
        now, _ = user.refresh()
        return bool(now != old)

    wait_until(another)
    return now


def remember(kind: str, home: Path, text: str) -> None:
    """Write one acknowledged row."""
    if kind == "vector":
        with postgres.ensure(settings_of(home)) as lease, psycopg.connect(lease.dsn) as link:
            link.execute("CREATE TABLE IF NOT EXISTS kept (text text)")
            link.execute("INSERT INTO kept VALUES (%s)", [text])
    else:
        with (
            graph.ensure(settings_of(home)) as server,
            session_of(server, server.writer) as session,
        ):
            session.execute_write(lambda tx: tx.run("CREATE (:Kept {text: $t})", t=text).consume())


def recall(kind: str, home: Path) -> list[str]:
    """What was written, in order."""
    if kind == "vector":
        with postgres.ensure(settings_of(home)) as lease, psycopg.connect(lease.dsn) as link:
            return [row[0] for row in link.execute("SELECT text FROM kept ORDER BY text")]
    with graph.ensure(settings_of(home)) as server, session_of(server, server.reader) as session:
        rows = session.run("MATCH (k:Kept) RETURN k.text AS text ORDER BY text")
        return [row["text"] for row in rows]


@contextlib.contextmanager
def session_of(server: graph.GraphLease, auth: tuple[str, str]) -> Iterator[neo4j.Session]:
    with neo4j.GraphDatabase.driver(server.uri, auth=auth) as driver:
        with driver.session(database=server.database) as session:
            yield session


# -- shared and left ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_processes_that_start_at_once_share_one_server_and_the_last_stops_it(
    kind: str, store_user: Users, fresh_home: Path
) -> None:
    users = [store_user(kind) for _ in range(8)]
    pids = {user.answer()[0] for user in users}
    assert len(pids) == 1
    (pid,) = pids
    for user in users[:-1]:
        user.close()
    assert process.identify(pid) is not None
    users[-1].close()
    assert gone(pid)
    assert wait_stopped(fresh_home / FOLDER[kind], LIMIT_S)


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_user_is_no_user(kind: str, store_user: Users) -> None:
    user = store_user(kind)
    pid, _ = user.answer()
    user.kill()
    assert gone(pid)


def test_a_server_lingers_for_the_next_user(store_user: Users, fresh_home: Path) -> None:
    # Longer than any user takes to start; so it is ended by hand.
    first = store_user("vector", linger_s=3600.0)
    pid, _ = first.answer()
    first.close()
    second = store_user("vector", linger_s=3600.0)
    assert second.answer()[0] == pid
    second.close()
    os.kill(keeper_of(fresh_home / "postgres"), signal.SIGTERM)
    assert gone(pid)


def test_a_lingering_server_ends_by_itself(store_user: Users) -> None:
    user = store_user("vector", linger_s=0.5)
    pid, _ = user.answer()
    user.close()
    assert gone(pid)


def test_a_users_forked_child_does_not_keep_the_server(fresh_home: Path) -> None:
    lease = postgres.ensure(settings_of(fresh_home))
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    worker.start()
    try:
        lease.close()
        assert gone(lease.pid)
    finally:
        worker.kill()
        worker.join()
        worker.close()


def test_two_homes_never_meet(store_user: Users, fresh_home: Path) -> None:
    here, there = (store_user("vector", fresh_home / name).answer() for name in "ab")
    assert here[0] != there[0]
    stolen = psycopg.conninfo.make_conninfo(
        there[1], password=psycopg.conninfo.conninfo_to_dict(here[1])["password"]
    )
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(stolen)


# -- killed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_server_comes_back_with_its_data(
    kind: str, store_user: Users, fresh_home: Path
) -> None:
    user = store_user(kind)
    pid, _ = user.answer()
    remember(kind, fresh_home, "before the kill")
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    renewed(user, pid)
    assert recall(kind, fresh_home) == ["before the kill"]
    state = read(fresh_home / FOLDER[kind])
    assert state is not None
    assert state.restarts == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_keeper_takes_its_server_along_and_is_replaced(
    kind: str, store_user: Users, fresh_home: Path
) -> None:
    user = store_user(kind)
    pid, _ = user.answer()
    remember(kind, fresh_home, "before the kill")
    os.kill(keeper_of(fresh_home / FOLDER[kind]), signal.SIGKILL)
    renewed(user, pid)
    assert gone(pid)
    assert recall(kind, fresh_home) == ["before the kill"]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_killed_at_once_is_recovered(
    kind: str, store_user: Users, fresh_home: Path
) -> None:
    user = store_user(kind)
    pid, _ = user.answer()
    remember(kind, fresh_home, "before the kill")
    victims = (keeper_of(fresh_home / FOLDER[kind]), pid)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    user.kill()
    # Until the signals arrive, both still answer as alive: a lease on the dying server would be given.
    assert all(gone(victim) for victim in victims)
    assert recall(kind, fresh_home) == ["before the kill"]


def test_a_terminated_keeper_stops_its_server_cleanly(store_user: Users, fresh_home: Path) -> None:
    user = store_user("vector")
    pid, _ = user.answer()
    os.kill(keeper_of(fresh_home / "postgres"), signal.SIGTERM)
    assert gone(pid)
    renewed(user, pid)


def test_a_dying_servers_processes_are_waited_for(store_user: Users, fresh_home: Path) -> None:
    """One that hangs at a slow disk keeps the shared memory, and so the next server from its start."""
    user = store_user("vector")
    pid, _ = user.answer()
    log = fresh_home / "postgres" / "server.log"
    slow = psutil.Process(pid).children()[0]
    slow.suspend()
    try:
        os.kill(pid, signal.SIGKILL)
        refused = "pre-existing shared memory block"
        wait_until(lambda: log.read_text().count(refused) > len(BACKOFF_S))
    finally:
        slow.resume()
    assert renewed(user, pid) != pid


def test_an_unrelated_process_that_a_stale_pid_file_names_is_left_alone(
    store_user: Users, fresh_home: Path
) -> None:
    remember("vector", fresh_home, "before the kill")
    folder = fresh_home / "postgres"
    user = store_user("vector")
    pid, _ = user.answer()
    pid_file = (folder / "data" / "postmaster.pid").read_text()
    for victim in (keeper_of(folder), pid):
        os.kill(victim, signal.SIGKILL)
    user.kill()
    assert gone(pid)
    assert wait_stopped(folder, LIMIT_S)
    with subprocess.Popen(["sleep", "3600"]) as bystander:
        try:
            lines = pid_file.splitlines()
            lines[0] = str(bystander.pid)
            (folder / "data" / "postmaster.pid").write_text("\n".join(lines) + "\n")
            record = {"mark": "0" * 16, "pid": bystander.pid, "started": "another boot:1"}
            (folder / "child.json").write_text(json.dumps(record))
            assert recall("vector", fresh_home) == ["before the kill"]
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_an_orphan_is_found_by_its_mark_and_stopped(fresh_home: Path) -> None:
    """As after a keeper killed between starting its server and writing its number down."""
    remember("vector", fresh_home, "kept")
    folder = fresh_home / "postgres"
    assert wait_stopped(folder, LIMIT_S)
    mark = secrets.token_hex(8)
    with subprocess.Popen(
        ["sleep", "3600", f"plait.mark={mark}"], stderr=subprocess.DEVNULL
    ) as odd:
        odd.wait(LIMIT_S)  # sleep refuses the argument: no process carries the mark
    with subprocess.Popen(["tail", "-f", "/dev/null", f"--pid={os.getpid()}", mark]) as orphan:
        (folder / "child.json").write_text(json.dumps({"mark": mark}))
        assert recall("vector", fresh_home) == ["kept"]
        assert orphan.wait(LIMIT_S) == -signal.SIGINT


def test_an_initdb_that_was_killed_is_done_again(store_user: Users, fresh_home: Path) -> None:
    # On a busy machine a whole initdb may pass between two looks: then again, in another home.
    for home in (fresh_home / str(n) for n in range(20)):
        user = store_user("vector", home)
        folder = home / "postgres"
        if half_made(folder):
            break
        user.answer()
    os.kill(keeper_of(folder), signal.SIGKILL)
    user.answer()
    assert not list(folder.glob("data.new-*"))
    remember("vector", home, "works")


def half_made(folder: Path) -> bool:
    """Whether the first look at a data folder that is being made comes before it is whole."""
    end = time.monotonic() + LIMIT_S
    while not (folder / "data").exists():
        if list(folder.glob("data.new-*")):
            return True
        assert time.monotonic() < end
        time.sleep(0.001)
    return False


# -- safe -------------------------------------------------------------------------------------------


def test_secrets_are_in_files_of_their_owner_only(store_user: Users, fresh_home: Path) -> None:
    pids = [store_user(kind).answer()[0] for kind in KINDS]
    secrets = [path.read_text().strip() for path in fresh_home.glob("*/*password")]
    assert len(secrets) == 3
    assert all(len(secret) >= 32 for secret in secrets)
    for path in fresh_home.glob("*/*"):
        if path.is_file():
            assert not path.stat().st_mode & 0o077, path
    for folder in ("postgres/data", "postgres/run", "graph/data"):
        assert stat.S_IMODE((fresh_home / folder).stat().st_mode) == 0o700
    words = [word for pid in pids for word in psutil.Process(pid).cmdline()]
    published = [path.read_text() for path in fresh_home.glob("*/endpoint.json")]
    logs = [path.read_text() for path in fresh_home.glob("*/*.log")]
    for secret in secrets:
        assert not any(secret in text for text in (*words, *published, *logs))


def test_servers_listen_on_loopback_or_a_socket_only(store_user: Users) -> None:
    java, _ = store_user("graph").answer()
    server, dsn = store_user("vector").answer()
    listening = [
        link.laddr.ip for link in psutil.Process(java).net_connections("tcp") if not link.raddr
    ]
    assert set(listening) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert len(listening) == 2
    assert psutil.Process(server).net_connections("tcp") == []
    assert "host=/" in dsn


def test_the_role_owns_its_database_and_no_more(embedded_postgres_dsn: str) -> None:
    with psycopg.connect(embedded_postgres_dsn, autocommit=True) as link:
        row = link.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone()
        assert row == (False,)
        link.execute("CREATE EXTENSION IF NOT EXISTS vector")
        link.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        for statement in ("COPY (SELECT 1) TO PROGRAM 'cat'", "SELECT pg_read_file('/etc/passwd')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute(statement)


def test_nothing_of_the_working_folder_is_imported(
    store_user: Users, fresh_home: Path, tmp_path: Path
) -> None:
    for name in ("plait", "vector", "graph", "server", "etl", "embedded_postgres", "psutil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("open('ran', 'a').write(__name__)\n")
    for name in ("json.py", "logging.py", "sitecustomize.py", "fcntl.py"):
        (tmp_path / name).write_text("open('ran', 'a').write(__name__)\n")
    for kind in KINDS:
        store_user(kind, cwd=tmp_path).answer()
    assert not (tmp_path / "ran").exists()
    assert not (fresh_home / FOLDER["graph"] / "ran").exists()


# -- odd places --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["with space, naïve-ünï-文 quo'te=$;%", "x" * 120])
@pytest.mark.parametrize("kind", KINDS)
def test_a_home_may_have_any_name(kind: str, name: str, fresh_home: Path) -> None:
    home = fresh_home / name
    remember(kind, home, "kept")
    assert wait_stopped(home / FOLDER[kind], LIMIT_S)
    assert recall(kind, home) == ["kept"]


def test_an_unwritable_home_is_named(fresh_home: Path) -> None:
    fresh_home.write_text("a file where a folder should be")
    with pytest.raises(HomeUnusable, match="PLAIT_HOME"):
        postgres.ensure(settings_of(fresh_home / "home"))
    fresh_home.unlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_is_named(fresh_home: Path) -> None:
    fresh_home.mkdir(0o500)
    with pytest.raises(HomeUnusable, match="belongs to uid"):
        postgres.ensure(settings_of(fresh_home))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another account")
def test_a_home_that_the_servers_account_cannot_enter_is_named(fresh_home: Path) -> None:
    closed = fresh_home.parent / "closed"
    closed.mkdir(0o700)
    with pytest.raises(HomeUnusable, match="cannot enter"):
        postgres.ensure(settings_of(closed / "home"))
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


# -- broken ------------------------------------------------------------------------------------------


def test_a_lost_password_is_replaced(fresh_home: Path) -> None:
    for kind in KINDS:
        remember(kind, fresh_home, "kept")
        assert wait_stopped(fresh_home / FOLDER[kind], LIMIT_S)
    for path in fresh_home.glob("*/*password"):
        path.unlink()
    for kind in KINDS:
        assert recall(kind, fresh_home) == ["kept"]


def test_data_of_another_major_version_is_refused_with_a_way_out(fresh_home: Path) -> None:
    remember("vector", fresh_home, "kept")
    assert wait_stopped(fresh_home / "postgres", LIMIT_S)
    (fresh_home / "postgres" / "data" / "PG_VERSION").write_text("17\n")
    with pytest.raises(SchemaMismatch, match="made by PostgreSQL 17"):
        postgres.ensure(settings_of(fresh_home))


def test_damaged_data_fails_with_the_servers_own_words(fresh_home: Path) -> None:
    remember("vector", fresh_home, "kept")
    assert wait_stopped(fresh_home / "postgres", LIMIT_S)
    (fresh_home / "postgres" / "data" / "global" / "pg_control").unlink()
    with pytest.raises(EmbeddedServerFailed, match="pg_control"):
        postgres.ensure(settings_of(fresh_home))


def test_a_taken_port_is_answered_by_another_start(fresh_home: Path) -> None:
    folder = private_folder(fresh_home / "graph")
    server = ArcadeChild(folder, package=graph.package(), version="", account=None, heap_mb=256)
    server.prepare()
    launch = server.launch("mark")
    taken = int(next(a for a in launch.args if "bolt.port" in a).partition("=")[2])
    with socket.create_server(("127.0.0.1", taken)), open_log(server.log) as log:
        with subprocess.Popen(
            launch.args, env=launch.env, cwd=launch.cwd, stdout=log, stderr=log
        ) as child:
            try:
                with pytest.raises(StartAgain, match=str(taken)):
                    wait_ready(server, child)
            finally:
                child.kill()


def wait_ready(server: ArcadeChild, child: subprocess.Popen[bytes]) -> None:
    while not server.ready(child.pid):
        assert child.poll() is None, server.log.read_text()
        time.sleep(0.05)
