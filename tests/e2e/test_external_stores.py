"""External stores by configuration alone: PostgreSQL by DSN over TCP and a real Neo4j, the same commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.neo4j_server import LTS, server
from tests.processes import LIMIT_S, PATIENT, patient, wait_until

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tcp_postgres_dsn: str, fresh_module_home: Path) -> Iterator[Run]:
    """`plait …` with both stores external; returns what `--json` prints."""
    with server(LTS) as neo4j:
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

        yield plait


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
    report = run("index", root, "--repo", "outside")
    assert (report["graph_published"], report["embedded"]) == (True, report["chunks"])
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
