"""A real grpc.aio server over the embedded stores, and a small repository indexed through it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc.aio
import pytest

from plait.client import AsyncPlaitClient
from plait.domain.errors import PlaitError
from plait.settings import Settings
from server.app import App, open_app
from server.grpc.server import Server, running
from tests.processes import PATIENT, eventually

REPO = "served"
SOURCE = '''\
"""Retries for flaky calls."""


def backoff(attempt: int) -> float:
    """Seconds to wait before another attempt, exponential with a ceiling."""
    return min(30.0, 0.1 * 2**attempt)


def fetch_with_retries(url: str) -> bytes:
    """Download a page, waiting between attempts."""
    for attempt in range(3):
        backoff(attempt)
    return b""
'''


# Of what is around a test run a command gets this and no more.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")
_opened: list[App] = []


async def at_rest(app: App) -> None:
    """Wait until all that was written has its vectors and is in the graph. Either follows a write in the
    background, and changes what is found and how it is ranked."""

    async def rests() -> bool:
        try:
            await app.embedder.run_until_idle()  # which links what is alike, for the graph
            app.level_soon()
            return await app.truth.outbox.waiting() == 0
        except PlaitError:  # the background's own tries go on, too
            return False

    await eventually(rests)


@pytest.fixture(scope="session")
async def app(settings: Settings) -> AsyncIterator[App]:
    async with open_app(settings, background=True) as opened:
        _opened.append(opened)
        yield opened
        _opened.remove(opened)


@pytest.fixture(scope="module", autouse=True)
async def rest_between_files() -> AsyncIterator[None]:
    """The event loop stands still while a test without one runs, and with it the session's server, in the
    middle of a transaction or with a repository claimed: the next file's commands would wait for it."""
    yield
    for opened in _opened:
        await at_rest(opened)


@pytest.fixture(scope="session")
def command_environment(plait_home: Path) -> dict[str, str]:
    """Of commands on the session's stores."""
    keep = {name: value for name, value in os.environ.items() if name in KEPT}
    return {**keep, **PATIENT, "PLAIT_HOME": str(plait_home)}


@pytest.fixture(scope="session")
async def server(app: App, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    socket = tmp_path_factory.mktemp("s") / "plait.sock"
    async with running(app, socket=socket, host="127.0.0.1", port=0) as started:
        yield started


@asynccontextmanager
async def own_server(app: App) -> AsyncIterator[Server]:
    """Another server of `app`, on a socket of its own."""
    with TemporaryDirectory(
        prefix="plait-"
    ) as folder:  # a test's own path may be too long for a socket
        async with running(app, socket=Path(folder) / "plait.sock") as started:
            yield started


@pytest.fixture(scope="session")
async def client(server: Server) -> AsyncIterator[AsyncPlaitClient]:
    async with AsyncPlaitClient(server.target) as made:
        yield made


@pytest.fixture(scope="session")
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.target) as made:
        yield made


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    (root / "pkg").mkdir()
    (root / "pkg" / "__init__.py").write_text("")
    (root / "pkg" / "retries.py").write_text(SOURCE)
    (root / "README.md").write_text("# Served\n\nA page about retries.\n")
    return root


@pytest.fixture(scope="session")
async def indexed(client: AsyncPlaitClient, source: Path) -> str:
    """The repository, indexed over the wire: text, graph and vectors."""
    begun = await client.start_index(str(source), repository=REPO)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", (job.error_reason, job.error_message)
    assert job.counts["files"] == 3
    assert job.revision is not None
    assert job.revision.embedded == job.revision.total > 0
    return REPO
