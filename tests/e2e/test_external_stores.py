"""External stores by configuration alone: PostgreSQL by DSN over TCP and a real Neo4j, the same commands; and
the service of docker-compose.yml over them, as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from plait.client import discovery
from tests.neo4j_server import LTS, Neo4jServer, Neo4jServers
from tests.processes import LIMIT_S, PATIENT, patient, wait_until

Run = Callable[..., Any]


@pytest.fixture(scope="module", params=[pytest.param(LTS, id=f"neo4j-{LTS}")])
def neo4j(request: pytest.FixtureRequest, neo4j_servers: Neo4jServers) -> Neo4jServer:
    return neo4j_servers.empty(request.param)


@pytest.fixture(scope="module")
def run(tcp_postgres_dsn: str, fresh_module_home: Path, neo4j: Neo4jServer) -> Run:
    """`plait …` with both stores external; returns what `--json` prints."""
    environment = {
        **os.environ,
        **PATIENT,
        **neo4j.environment(),
        "PLAIT_HOME": str(fresh_module_home),
        "PLAIT_POSTGRES__DSN": tcp_postgres_dsn,
    }

    def plait(
        *args: str | Path, code: int = 0, more: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("plait")), *patient(*map(str, args)), "--json"],
            env={**environment, **more},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return plait


@pytest.fixture(scope="module")
def fresh_module_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("external-home")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("external-source")
    (top / "shop.py").write_text(
        "def total(items):\n    return sum(items)\n\n\ndef checkout(cart):\n    return total(cart)\n"
    )
    return top


def test_index_search_graph_and_episode_on_external_stores(
    run: Run, root: Path, fresh_module_home: Path, tmp_path: Path
) -> None:
    report = run("index", root, "--repo", "outside", "--wait")
    assert (report["graph_revision"], report["embedded"]) == (1, report["chunks"])
    assert run("index", root, "--repo", "outside")["changed"] is False

    found = run("search", "sum of what is in the cart", "--repo", "outside")
    assert "shop.py" in json.dumps(found)

    callers = run("graph", "callers", "shop.total", "--repo", "outside")
    assert "shop.checkout" in json.dumps(callers)

    episode = tmp_path / "episode.json"
    episode.write_text(
        json.dumps(
            {
                "repo": "outside",
                "outcome": {"status": "success", "summary": "Totals are rounded"},
                "artifacts": [
                    {"kind": "reflection", "path": "shop.py", "content": "Round once, at the end."}
                ],
            }
        )
    )
    run("ingest", episode)
    linked = "MATCH (e:Episode)-[r]->(f:File) RETURN type(r) AS how, f.path AS path"
    # A command's own server projects once; what failed then waits for the next one.
    wait_until(lambda: "shop.py" in json.dumps(run("graph", "--cypher", linked)))
    assert not (fresh_module_home / "postgres").exists()
    assert not (fresh_module_home / "graph").exists()


def test_a_write_through_cypher_is_refused_there_too(run: Run, root: Path) -> None:
    refused = run("graph", "--cypher", "CREATE (n:File) RETURN n", code=1)
    assert refused["error"]["reason"] == "CYPHER_REFUSED"


def test_doctor_asks_both_and_finds_a_wrong_login_and_a_missing_database(
    run: Run,
) -> None:
    stores = run("doctor")["stores"]
    assert [store["status"] for store in stores] == ["answers", "answers"]
    assert stores[1]["version"].startswith("Neo4j/")
    for key, value, what, fix in (
        ("PASSWORD", "wr0ng", "refused the login", "check `graph.user` and `graph.password`"),
        ("DATABASE", "missing", "has no database 'missing'", "mend `graph.database`"),
        ("URI", "bolt://127.0.0.1:1", "cannot be reached", "start that server"),
    ):
        report = run("doctor", code=1, more={f"PLAIT_GRAPH__{key}": value})
        (finding,) = report["findings"]
        assert what in finding["what"] or "does not answer" in finding["what"]
        assert fix in finding["fix"]


# -- docker-compose.yml ------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PASSWORD = "p@ss:w/rd'\" $HOME %20#?&"


@pytest.fixture
def postgres(tcp_postgres_dsn: str) -> Iterator[dict[str, Any]]:
    """That server, with a password as a person may choose one."""
    said = conninfo_to_dict(tcp_postgres_dsn)
    with psycopg.connect(tcp_postgres_dsn, autocommit=True) as conn:
        change = sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}")
        conn.execute(change.format(sql.Literal(PASSWORD)))
        try:
            yield said
        finally:
            conn.execute(change.format(sql.Literal(str(said["password"]))))


@dataclass(frozen=True)
class Service:
    """The service `plait` of the compose file, as processes of this machine."""

    home: Path
    command: list[str]
    environment: dict[str, str]
    health: list[str]

    def do(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """As `docker compose exec plait …`."""
        return subprocess.run(
            [str(Path(sys.executable).with_name(words[0])), *words[1:]],
            env={**self.environment, **more}, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip


@pytest.fixture
def service(
    postgres: dict[str, Any], neo4j: Neo4jServer, root: Path, tmp_path: Path
) -> Iterator[Service]:
    """Its environment and command as they are written; what Compose puts in their place is put there: the
    passwords, the stores' addresses, and folders for volumes."""
    tree = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["plait"]
    secrets = {"PLAIT_POSTGRES_PASSWORD": PASSWORD, "PLAIT_NEO4J_PASSWORD": neo4j.password}
    places = {
        "postgres:5432": f"{postgres['host']}:{postgres['port']}",
        "bolt://neo4j:7687": neo4j.uri,
        "/var/lib/plait": str(tmp_path / "home"),
        "/app/": f"{ROOT}/",
    }

    def put(value: str) -> str:
        filled = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: secrets[found[1]], value)
        if filled == value:
            for inside, here in places.items():
                filled = filled.replace(inside, here)
        return filled

    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environment = {name: put(str(value)) for name, value in tree["environment"].items()}
    found = Service(
        tmp_path / "home",
        list(tree["command"]),
        {**keep, **PATIENT, **environment, "PLAIT_SERVER__PORT": "0", "HOME": str(tmp_path)},
        list(tree["healthcheck"]["test"][1:]),
    )
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name(found.command[0])), *found.command[1:]],
            env=found.environment, stdout=log, stderr=log, cwd=tmp_path,
        )  # fmt: skip
        try:
            yield found
            assert process.poll() is None, (tmp_path / "log").read_text()
        finally:
            process.terminate()
            assert process.wait(LIMIT_S) == 0, (tmp_path / "log").read_text()


def test_the_compose_service_is_healthy_indexes_and_answers_holders_of_a_key(
    service: Service, root: Path, tmp_path: Path
) -> None:
    wait_until(lambda: service.do(*service.health).returncode == 0)

    # README: docker compose exec plait plait index /repositories/app
    indexed = service.do("plait", "index", str(root), "--repo", "composed", "--quiet")
    assert indexed.returncode == 0, indexed.stderr
    added = service.do("plait", "keys", "add", "ci", "--repo", "composed")
    assert added.returncode == 0, added.stderr

    known = discovery.read(service.home)
    assert known is not None
    assert known.host == "0.0.0.0"
    outside = {
        "PATH": service.environment["PATH"], "HOME": str(tmp_path), "PLAIT_HOME": str(tmp_path / "else"),
        "PLAIT_SERVER": f"localhost:{known.port}",
        "PLAIT_CLIENT__TLS_CA": str(service.home / "server/tls/certificate.pem"),
        "PLAIT_CLIENT__TOKEN": added.stdout.strip(),
    }  # fmt: skip

    def ask(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(Path(sys.executable).with_name("plait")), *patient(*words)],
            env={**outside, **more}, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip

    found = ask("search", "sum of what is in the cart", "--repo", "composed")
    assert "shop.py" in found.stdout, found.stderr
    stranger = ask("search", "sum", "--repo", "composed", PLAIT_CLIENT__TOKEN="plait_" + "x" * 43)
    assert "UNAUTHENTICATED" in stranger.stderr
    in_plain = ask("search", "sum", "--repo", "composed", PLAIT_CLIENT__TLS_CA="")
    assert (in_plain.returncode, in_plain.stdout) == (1, "")
    writes = ask("memory", "store", "m4rk3r", "--repo", "composed")
    assert "VERB_NOT_ALLOWED" in writes.stderr

    revoked = service.do("plait", "keys", "revoke", "ci")
    assert revoked.returncode == 0, revoked.stderr
    assert "UNAUTHENTICATED" in ask("search", "sum", "--repo", "composed").stderr

    def told() -> str:
        return (service.home / "server/audit.jsonl").read_text()

    wait_until(lambda: told().count("UNAUTHENTICATED") >= 2)
    for word in ("AccessService/CreateKey", "AccessService/RevokeKey", "VERB_NOT_ALLOWED"):
        assert word in told()
    for word in (added.stdout.strip(), "m4rk3r", "cart", PASSWORD):
        assert word not in told()
    assert service.do("plait", "doctor").returncode == 0
