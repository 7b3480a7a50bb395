"""Servers that tests share: started once a session, each with data of its own, all stopped at its end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from graph import embedded as graph
from plait.settings import Settings, load
from plait.supervisor.lease import wait_stopped
from vector import embedded as postgres


@pytest.fixture(scope="session")
def plait_home() -> Iterator[Path]:
    """A `PLAIT_HOME` of this session: a short path, which an unprivileged server account can enter."""
    home = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    yield home
    # Fixtures that hold a server have left it by now: its keeper stops it and goes.
    for lock in home.rglob("keeper.lock"):
        assert wait_stopped(lock.parent, 60.0), f"{lock.parent} is still kept"
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def settings(plait_home: Path) -> Settings:
    """Settings of the embedded stores; nothing of the caller's environment or files gets in."""
    return load(environ={"PLAIT_HOME": str(plait_home)})


@pytest.fixture(scope="session")
def embedded_postgres_dsn(settings: Settings) -> Iterator[str]:
    """The embedded PostgreSQL over its Unix socket; its database `plait` is shared by all tests."""
    with postgres.ensure(settings) as lease:
        yield lease.dsn


@pytest.fixture(scope="session")
def tcp_postgres_dsn(plait_home: Path) -> Iterator[str]:
    """A second PostgreSQL, with data of its own, reached by a DSN over TCP as an external one is."""
    other = load(environ={"PLAIT_HOME": str(plait_home / "second")})
    with postgres.ensure(other, tcp=True) as lease:
        yield lease.dsn


@pytest.fixture(scope="session")
def embedded_graph(settings: Settings) -> Iterator[graph.GraphLease]:
    """The embedded graph server; its database is shared by all tests."""
    with graph.ensure(settings) as lease:
        yield lease
