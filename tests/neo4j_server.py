"""Real Neo4j Community servers for the tests, with fresh data each run.

In this order: the server at NEO4J_TEST_URI (with NEO4J_TEST_USER, NEO4J_TEST_PASSWORD,
NEO4J_TEST_DATABASE; the tests fill it); a container, where a Docker engine answers; Java and Maven,
which fetch the server's jars once into the user's cache folder. Otherwise `Unavailable`, which skips
on a laptop and fails where CI=true.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import neo4j
import platformdirs
import pytest
from neo4j.exceptions import AuthError, DriverError, Neo4jError

from tests.processes import LIMIT_S

LTS = "5.26.30"  # tested always
LATEST = "2026.08.1"  # tested where Java 21 or later is found
POM = Path(__file__).with_name("neo4j_pom.xml")
_START_S = 400.0
_STARTS = 3
_FETCHES = 5  # a network may fail for a moment
_OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
# A test server lives for a minute: C1 only and one collector thread cost half the CPU.
_JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class Unavailable(Exception):
    """Why there is no Neo4j of this version here."""


class Ended(Unavailable):
    """It did not come up, as when somebody took its port before it could."""


@dataclass(frozen=True, slots=True)
class Neo4jServer:
    """`pid`: of the server, where it is our child; 0 otherwise."""

    uri: str
    user: str
    password: str
    database: str
    version: str
    pid: int = 0

    def environment(self) -> dict[str, str]:
        """The `PLAIT_*` variables that switch Plait over to this server."""
        return {
            "PLAIT_GRAPH__URI": self.uri,
            "PLAIT_GRAPH__USER": self.user,
            "PLAIT_GRAPH__PASSWORD": self.password,
            "PLAIT_GRAPH__DATABASE": self.database,
        }


class Neo4jServers:
    """A server a version, started when it is first needed: a JVM costs 15 to 25 CPU seconds each time."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        """`stack` stops them."""
        self._stack = stack
        self._running: dict[str, Neo4jServer] = {}
        self._stops: dict[str, contextlib.ExitStack] = {}

    def empty(self, version: str) -> Neo4jServer:
        """The server of `version` without data; its schema stays. Skips or fails as `server` does."""
        if version not in self._running:
            stop = self._stack.enter_context(contextlib.ExitStack())
            self._running[version] = stop.enter_context(server(version))
            self._stops[version] = stop
        found = self._running[version]
        login = (found.user, found.password)
        with neo4j.GraphDatabase.driver(found.uri, auth=login) as driver:
            driver.execute_query(
                "MATCH (n) WHERE NOT n:PlaitMigration DETACH DELETE n", database_=found.database
            )
        return found

    def released(self, version: str) -> None:
        """Stop the server of `version` if a query still runs there: some heed no deadline and no TERMINATE,
        and one would take a core from every test that follows."""
        found = self._running[version]
        login = (found.user, found.password)
        with neo4j.GraphDatabase.driver(found.uri, auth=login) as driver:
            shown, _, _ = driver.execute_query(
                "SHOW TRANSACTIONS YIELD currentQuery WHERE NOT currentQuery STARTS WITH 'SHOW' RETURN *"
            )
        if shown and found.pid:
            del self._running[version]
            self._stops.pop(version).close()


@contextlib.contextmanager
def server(version: str) -> Iterator[Neo4jServer]:
    """A running server of `version`. Skips the test, or fails it in CI, when there is none."""
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(_choose(version))
        except Unavailable as exc:
            needs_java_21 = version == LATEST
            if os.environ.get("CI") == "true" and not needs_java_21:
                pytest.fail(f"no Neo4j {version}: {exc}")
            pytest.skip(f"no Neo4j {version}: {exc}")
        yield running


def _choose(version: str) -> contextlib.AbstractContextManager[Neo4jServer]:
    if uri := os.environ.get("NEO4J_TEST_URI"):
        if version != LTS:
            raise Unavailable("NEO4J_TEST_URI names one server, which stands for every version")
        return contextlib.nullcontext(
            Neo4jServer(
                uri=uri,
                user=os.environ.get("NEO4J_TEST_USER", "neo4j"),
                password=os.environ.get("NEO4J_TEST_PASSWORD", ""),
                database=os.environ.get("NEO4J_TEST_DATABASE", ""),
                version=version,
            )
        )
    if _docker_answers():
        return _container(version)
    return _child(version)


# -- Docker ---------------------------------------------------------------------------------------


def _docker_answers() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([docker, "info"], capture_output=True, timeout=10).returncode == 0
    return False


@contextlib.contextmanager
def _container(version: str) -> Iterator[Neo4jServer]:
    password = secrets.token_hex(16)
    started = subprocess.run(
        [
            "docker",
            "run",
            "--detach",
            "--rm",
            "--publish=127.0.0.1::7687",
            f"--env=NEO4J_AUTH=neo4j/{password}",
            "--env=NEO4J_dbms_security_allow__csv__import__from__file__urls=false",
            "--env=NEO4J_server_memory_heap_max__size=768m",
            f"neo4j:{version}-community",
        ],
        capture_output=True,
        text=True,
    )
    if started.returncode:
        raise Unavailable(f"docker run: {started.stderr.strip()}")
    name = started.stdout.strip()
    try:
        told = subprocess.run(
            ["docker", "port", name, "7687"], capture_output=True, text=True, check=True
        )
        port = int(told.stdout.split()[0].rpartition(":")[2])
        running = Neo4jServer(f"bolt://127.0.0.1:{port}", "neo4j", password, "neo4j", version)
        _wait(running, lambda: None)
        yield running
    finally:
        subprocess.run(["docker", "kill", name], capture_output=True)


# -- Java and Maven -------------------------------------------------------------------------------


@contextlib.contextmanager
def _child(version: str) -> Iterator[Neo4jServer]:
    java = _java(version)
    jars = _class_path(version, java)
    with contextlib.ExitStack() as stack:
        for attempt in range(_STARTS):
            try:
                running = stack.enter_context(_started(version, java, jars))
                break
            except Ended:
                if attempt == _STARTS - 1:
                    raise
        yield running


@contextlib.contextmanager
def _started(version: str, java: Path, jars: Path) -> Iterator[Neo4jServer]:
    """One start, on a port that was free a moment ago. Raises: Ended, as when it is no longer."""
    home = Path(tempfile.mkdtemp(prefix="plait-neo4j-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        # As people choose them: nothing that an address, a shell or a command line reads otherwise.
        password, port = f"-{secrets.token_hex(8)}p@ss:w/rd'\" $x", _free_port()
        environment = _configure(home, port)
        command = [str(java), *_JVM, *_OPENS, "-cp", f"{jars}/*"]
        first = [
            *command,
            "org.neo4j.server.startup.Neo4jAdminCommand",
            "dbms",
            "set-initial-password",
            "--",
            password,
        ]
        set_up = subprocess.run(first, env=environment, cwd=home, capture_output=True, text=True)
        if set_up.returncode:
            raise Unavailable(f"set-initial-password: {set_up.stderr[-500:]}")
        entry = "CommunityEntryPoint" if version.startswith("5.") else "Neo4jCommunity"
        with (home / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *command,
                    f"org.neo4j.server.{entry}",
                    f"--home-dir={home}",
                    f"--config-dir={home / 'conf'}",
                ],
                env=environment,
                cwd=home,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        stack.callback(_stop, process)
        running = Neo4jServer(
            f"bolt://127.0.0.1:{port}", "neo4j", password, "neo4j", version, process.pid
        )

        def died() -> str | None:
            if process.poll() is None:
                return None
            logs = [home / "server.log", *sorted((home / "logs").glob("*.log"))]
            return "\n".join(log.read_text(errors="replace")[-2000:] for log in logs)

        _wait(running, died)
        yield running


def _configure(home: Path, port: int) -> dict[str, str]:
    """Write neo4j.conf, with what docs/cypher-guard.md asks of a deployment; the environment."""
    (home / "conf").mkdir()
    settings = {
        "server.bolt.listen_address": f"127.0.0.1:{port}",
        "server.http.enabled": "false",
        "server.https.enabled": "false",
        "server.memory.heap.max_size": "768m",
        "server.memory.pagecache.size": "64m",
        "dbms.security.allow_csv_import_from_file_urls": "false",
        "dbms.memory.transaction.total.max": "384m",
        "db.transaction.timeout": "60s",
        "dbms.usage_report.enabled": "false",
    }
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    (home / "conf" / "neo4j.conf").write_text(text)
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "NEO4J_HOME": str(home),
        "NEO4J_CONF": str(home / "conf"),
    }


def _java(version: str) -> Path:
    """A Java that runs `version`: 17 or 21 for Neo4j 5, 21 or later for 2025 and on."""
    candidates = [Path(home, "bin", "java") for home in (os.environ.get("JAVA_HOME"),) if home]
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    for folder in ("/usr/lib/jvm", "/Library/Java/JavaVirtualMachines"):
        candidates += sorted(Path(folder).glob("*/bin/java"))
        candidates += sorted(Path(folder).glob("*/Contents/Home/bin/java"))
    needed = range(17, 22) if version.startswith("5.") else range(21, 100)
    for java in candidates:
        if _major(java) in needed:
            return java
    raise Unavailable(f"it needs Java {needed.start} or later, and neither Docker nor that is here")


def _major(java: Path) -> int:
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', told.stderr)
    return int(found[1]) if found else 0


def _class_path(version: str, java: Path) -> Path:
    """The folder of the server's jars, fetched by Maven the first time (123 MB)."""
    cache = Path(platformdirs.user_cache_dir("plait-tests", appauthor=False))
    folder = cache / f"neo4j-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"neo4j-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once fetch it once
        if not (folder / ".complete").exists():
            _fetch(version, folder, java)
            (folder / ".complete").touch()
    return folder


def _fetch(version: str, folder: Path, java: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("neither Docker nor Maven is here to get it with")
    goal = "dependency:copy-dependencies"
    options = [
        f"-DoutputDirectory={folder}",
        "-DincludeScope=runtime",
        f"-Dneo4j.version={version}",
    ]
    environment = {**os.environ, "JAVA_HOME": str(java.resolve().parent.parent)}
    with tempfile.TemporaryDirectory() as work:  # Maven writes beside its pom
        pom = Path(work, "pom.xml")
        shutil.copyfile(POM, pom)
        command = [maven, "-q", "-B", "-f", str(pom), goal, *options]
        for attempt in range(_FETCHES):
            time.sleep(10.0 * attempt)
            fetched = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=600
            )
            if fetched.returncode == 0:
                break
    if fetched.returncode:
        raise Unavailable(f"Maven could not fetch it: {fetched.stdout[-500:]}")


def _free_port() -> int:
    """Below those that systems give to whoever asks for any: the server needs seconds until it binds it,
    in which other tests open thousands of connections."""
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _wait(running: Neo4jServer, died: Callable[[], str | None]) -> None:
    """Until it answers a query. Raises: Unavailable, with the end of its log."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if (log := died()) is not None:
            raise Ended(f"the server ended: {log}")
        try:
            login = (running.user, running.password)
            with neo4j.GraphDatabase.driver(
                running.uri, auth=login, connection_acquisition_timeout=30.0
            ) as driver:
                with driver.session(database=running.database) as session:
                    session.run("RETURN 1").consume()
                return
        except AuthError:
            raise
        except (DriverError, Neo4jError, OSError):
            time.sleep(0.25)
    raise Unavailable(f"the server did not answer within {_START_S:g} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Its data is thrown away, so it need not end cleanly."""
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait(LIMIT_S)
