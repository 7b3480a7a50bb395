"""Servers that tests share: started once a session, each with data of its own, all stopped at its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis.internal.conjecture import providers

from graph.server import embedded as graph
from plait.client.calls import timeouts
from plait.settings import Settings, load
from tests.neo4j_server import LATEST, LTS, Neo4jServers
from tests.processes import LIMIT_S, PATIENT, remove_home
from vector.server import embedded as postgres

# Time is no property of the code under test: a busy machine makes nothing fail. CI's own profile, which
# draws the same examples each run, stays as it is; `--hypothesis-profile=search` looks for new ones.
hypothesis_settings.register_profile(
    "plait",
    hypothesis_settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
hypothesis_settings.register_profile(
    "search", hypothesis_settings.get_profile("plait"), derandomize=False, max_examples=3000
)
hypothesis_settings.load_profile("plait")

# The keeper has no gRPC in its process, but tests that do its work in theirs have: its core then runs in
# each fork before the program starts, on closed files (an initdb died of it), unless it is told not to.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"

# A shell that starts a run in the background has it ignore Ctrl-C, and all that the tests start inherits
# that: what they interrupt would not be.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but all tests that share a Neo4j run in one process, which starts it once."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    made = LoadFileScheduling(config, log)
    by_file = made._split_scope

    def by_server(nodeid: str) -> str:
        return next((v for v in (LTS, LATEST) if f"[neo4j-{v}" in nodeid), "") or by_file(nodeid)

    made._split_scope = by_server
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests recorded as "printed" belongs into CI's output, from whichever process."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == "printed":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(str(text))


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Calls wait as long as a test does: when an answer comes is the machine's business."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("SEARCH", "GRAPH", "WRITE", "READ"):
            patch.setattr(timeouts, f"{kind}_S", LIMIT_S)
        yield


@pytest.fixture(scope="session", autouse=True)
def examples() -> Iterator[None]:
    """Hypothesis draws constants of our modules that are imported too, which vary with the tests that came
    before: where each run is to draw the same examples, it is kept from that."""
    with pytest.MonkeyPatch.context() as patch:
        if hypothesis_settings().derandomize:
            patch.setattr(providers, "is_local_module_file", lambda path: False)
        yield


@pytest.fixture(scope="session")
def neo4j_servers() -> Iterator[Neo4jServers]:
    with contextlib.ExitStack() as stack:
        yield Neo4jServers(stack)


@pytest.fixture(scope="session")
def plait_home() -> Iterator[Path]:
    """A `PLAIT_HOME` of this session: a short path, which an unprivileged server account can enter."""
    home = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        home.chmod(0o711)
    yield home
    # Fixtures that hold a server have left it by now: its keeper stops it and goes.
    remove_home(home)


@pytest.fixture(scope="session")
def settings(plait_home: Path) -> Settings:
    """Settings of the embedded stores; nothing of the caller's environment or files gets in."""
    return load(environ={**PATIENT, "PLAIT_HOME": str(plait_home)})


@pytest.fixture(scope="session")
def embedded_postgres_dsn(settings: Settings) -> Iterator[str]:
    """The embedded PostgreSQL over its Unix socket; its database `plait` is shared by all tests."""
    with postgres.ensure(settings) as lease:
        yield lease.dsn


@pytest.fixture(scope="session")
def tcp_postgres_dsn(plait_home: Path) -> Iterator[str]:
    """A second PostgreSQL, with data of its own, reached by a DSN over TCP as an external one is."""
    other = load(environ={**PATIENT, "PLAIT_HOME": str(plait_home / "second")})
    with postgres.ensure(other, tcp=True) as lease:
        yield lease.dsn


@pytest.fixture(scope="session")
def embedded_graph(settings: Settings) -> Iterator[graph.GraphLease]:
    """The embedded graph server; its database is shared by all tests."""
    with graph.ensure(settings) as lease:
        yield lease


# -- processes that use a store, to be shared, left and killed ------------------------------------------

USER = """
import importlib, json, sys
from plait.settings import load
kind, home, linger = sys.argv[1:4]
settings = load(
    environ={"PLAIT_HOME": home}, embedded={"linger_s": float(linger), "start_timeout_s": 300.0}
)
lease = importlib.import_module(kind + ".server.embedded").ensure(settings)
while True:
    where = lease.dsn if kind == "vector" else lease.uri
    print(json.dumps({"pid": lease.pid, "where": where}), flush=True)
    if sys.stdin.readline() != "refresh\\n":
        break
    lease.refresh()
"""


class StoreUser:
    """A process of its own that holds a lease on the `vector` or `graph` store of `home`."""

    def __init__(
        self, kind: str, home: Path, *, linger_s: float = 0.0, cwd: Path | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", USER, kind, str(home), str(linger_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
        )

    def answer(self) -> tuple[int, str]:
        """The server's pid and DSN or URI, once the server is there."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the user ended with status {self.process.wait()}"
        told = json.loads(line)
        return int(told["pid"]), str(told["where"])

    def refresh(self) -> tuple[int, str]:
        assert self.process.stdin is not None
        self.process.stdin.write("refresh\n")
        self.process.stdin.flush()
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        """Let it leave, or collect it when it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(LIMIT_S)
        self.process.stdout.close()


@pytest.fixture
def fresh_home() -> Iterator[Path]:
    """A home for one test, reachable for an unprivileged account; its servers must end by themselves."""
    base = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        base.chmod(0o711)
    yield base / "home"
    remove_home(base)


@pytest.fixture
def store_user(fresh_home: Path) -> Iterator[Callable[..., StoreUser]]:
    """Starts users of `fresh_home` (or another home); those left at the end are closed."""
    users: list[StoreUser] = []

    def start(kind: str, home: Path | None = None, **options: Any) -> StoreUser:
        users.append(StoreUser(kind, home or fresh_home, **options))
        return users[-1]

    yield start
    for user in users:
        user.close()
