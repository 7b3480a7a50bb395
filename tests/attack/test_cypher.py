"""Attacks on users' Cypher: endless loops, memory, and the walls of a repository, on both graph servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import graph
from graph.guard.rules import Guarded, Limits, guard
from graph.server.check import check
from graph.store import CypherStore
from plait.domain.deadline import Deadline
from plait.domain.errors import (
    CypherRefused,
    DeadlineExceeded,
    ResultTooLarge,
)
from plait.ports import GraphEdge, GraphNode, GraphPath
from tests.contract.graph_servers import SERVERS, GraphServer, chain, delta, running
from tests.cypher_attacks import ATTACKS, FILLS_MEMORY, LEGITIMATE, RUNS_ON
from tests.cypher_cases import BENIGN, HOSTILE
from tests.neo4j_server import LATEST, Neo4jServers
from tests.processes import LIMIT_S, eventually

ARCADE = Limits(aggregate_predicates=False)
ANSWERS = Path(__file__).parent.parent / "data" / "cypher_answers.json"

# -- the guard alone -------------------------------------------------------------------------------


def test_what_grows_or_loops_without_end_is_refused() -> None:
    passed = []
    for text, given in [*ATTACKS, *RUNS_ON, FILLS_MEMORY]:
        try:
            guard(text, given)
        except CypherRefused:
            continue
        passed.append(text[:200])
    assert not passed
    assert len(ATTACKS) > 700


def test_what_agents_ask_is_not_refused() -> None:
    refused = []
    for text, given in LEGITIMATE:
        for limits in (Limits(), ARCADE):
            for repos in ((), ("q",)):
                try:
                    guard(text, given, limits, repos=repos)
                except CypherRefused as exc:
                    refused.append(f"{text}: {exc}")
    assert not refused
    assert len(LEGITIMATE) >= 60


def test_the_place_and_the_way_out_are_told() -> None:
    with pytest.raises(CypherRefused, match=r"line 2, column 8.*list\[\.\.100\].*UNWIND"):
        guard("MATCH (n) WITH collect(n.id) AS l\nRETURN [x IN l WHERE x IN l]", {})


# -- on the servers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[one for one in SERVERS if LATEST not in one.values])
def server(
    request: pytest.FixtureRequest, plait_home: Path, neo4j_servers: Neo4jServers
) -> Iterator[GraphServer]:
    with running(request.param, plait_home / "attack-cypher", neo4j_servers) as found:
        yield found


@pytest.fixture(scope="module")
async def store(server: GraphServer) -> AsyncIterator[CypherStore]:
    """The same chain of calls in two repositories, "q" and "z"."""
    opened = await graph.open(server.settings)
    for repo in ("q", "z"):
        nodes, edges = chain(repo, 40)
        await opened.apply(delta(repo, nodes=nodes, edges=edges))
    yield opened
    await opened.close()


async def ask(
    store: CypherStore, text: str, given: dict[str, Any], within_s: float = LIMIT_S
) -> Any:
    return await store.query(text, given, max_rows=1000, deadline=Deadline.after(within_s))


async def unguarded(store: CypherStore, text: str, given: dict[str, Any], within_s: float) -> Any:
    """Past the guard, as if it had let the statement through."""
    return await store._run(Guarded(text, given), max_rows=10, deadline=Deadline.after(within_s))


def pid(store: CypherStore, server: GraphServer) -> int:
    """Of the server that is there now."""
    if store._lease is None:
        return server.pid
    store._lease.refresh()
    return store._lease.pid


async def comes_to_rest(store: CypherStore, server: GraphServer) -> None:
    async def rests() -> bool:
        try:
            process = psutil.Process(await asyncio.to_thread(pid, store, server))
            before = process.cpu_times()
            await asyncio.sleep(0.5)
            after = process.cpu_times()
        except psutil.NoSuchProcess:
            return False
        return (after.user + after.system) - (before.user + before.system) < 0.1

    await eventually(rests)


async def test_attacks_are_refused_and_the_server_stays_at_rest(
    store: CypherStore, server: GraphServer
) -> None:
    for text, given in [*ATTACKS[::20], *RUNS_ON, FILLS_MEMORY]:
        with pytest.raises(CypherRefused):
            await ask(store, text, given)
    if server.pid:
        await comes_to_rest(store, server)


@pytest.mark.parametrize(("text", "given"), RUNS_ON[::2], ids=["loop", "path"])
async def test_a_query_that_will_not_end_is_ended_with_its_server(
    store: CypherStore, server: GraphServer, text: str, given: dict[str, Any]
) -> None:
    """The backstop, with the guard out of the way; others see a wait and no error."""
    if server.name != "arcadedb":
        pytest.skip("a server of somebody else's cannot be killed")
    before = await asyncio.to_thread(pid, store, server)
    stop = asyncio.Event()

    async def reads() -> int:
        count = 0
        while not stop.is_set():
            assert (await ask(store, "RETURN 1 AS one", {})).rows == [[1]]
            count += 1
            await asyncio.sleep(0.01)
        return count

    others = asyncio.create_task(reads())
    with pytest.raises(DeadlineExceeded):
        await unguarded(store, text, given, 1.0)

    async def replaced() -> bool:
        return await asyncio.to_thread(pid, store, server) != before

    await eventually(replaced)
    stop.set()
    assert await others > 0
    await comes_to_rest(store, server)
    assert (await ask(store, "MATCH (n:Function {repo: 'q'}) RETURN count(n)", {})).rows == [[40]]


async def test_a_query_that_fills_the_memory_ends_the_server_twice_at_most(
    store: CypherStore, server: GraphServer
) -> None:
    if server.name != "arcadedb":
        pytest.skip("Neo4j limits what a transaction may take")
    with pytest.raises(ResultTooLarge, match="ended twice"):
        await unguarded(store, *FILLS_MEMORY, 120.0)
    assert (await ask(store, "MATCH (n:Function {repo: 'q'}) RETURN count(n)", {})).rows == [[40]]
    await comes_to_rest(store, server)


# -- repositories --------------------------------------------------------------------------------------


def _plain(cell: Any) -> Any:
    match cell:
        case GraphNode():
            return {"node": cell.id, "labels": list(cell.labels)}
        case GraphEdge():
            return {"edge": cell.relation, "from": cell.source, "to": cell.target}
        case GraphPath():
            return {
                "nodes": [_plain(n) for n in cell.nodes],
                "edges": [_plain(e) for e in cell.edges],
            }
        case dict():
            return {key: _plain(value) for key, value in cell.items()}
        case list():
            return [_plain(value) for value in cell]
    return cell


async def test_a_repository_named_is_a_wall(store: CypherStore) -> None:
    """Every harmless query answers for "q" as if "z", its twin, were not there; what cannot be limited
    is refused."""
    answers = json.loads(ANSWERS.read_text())
    refused = []
    for text, given in BENIGN:
        try:
            result = await store.query(
                text, given, max_rows=1000, deadline=Deadline.after(LIMIT_S), repos=("q",)
            )
        except CypherRefused as exc:
            refused.append((text, str(exc)))
            continue
        rows = [_plain(list(row)) for row in result.rows]
        if "ORDER BY" not in text:
            rows.sort(key=json.dumps)
        assert rows == answers[text]["rows"], text
    assert all("repositories" in why or "aggregate first" in why for _, why in refused), refused
    assert len(refused) <= 2


LEAKS = [
    "MATCH (n) RETURN n.repo AS r",
    "MATCH (n) WHERE true OR n.repo = 'z' RETURN n.repo AS r",
    "MATCH (n WHERE true) RETURN n.repo AS r",
    "MATCH (n WHERE false OR true OR n.repo = 'q') RETURN n.repo AS r",
    "MATCH (n {repo: 'z'}) RETURN n.repo AS r",
    "MATCH (`n`:Function) RETURN `n`.repo AS r",
    "MATCH (:Function)-[x]->() RETURN startNode(x).repo AS r",
    "MATCH ()-[x:CALLS*1..2]->() UNWIND x AS y RETURN endNode(y).repo AS r",
    "MATCH ()-->(n) RETURN n.repo AS r UNION MATCH (m) RETURN m.repo AS r",
    "MATCH (a:Function {repo: 'q'}) MATCH (n {repo: 'z'}) RETURN n.repo AS r",
    "MATCH (a:Function {repo: 'q'}) OPTIONAL MATCH (n {repo: 'z'}) RETURN n.repo AS r",
    "RETURN COUNT { (n {repo: 'z'}) } AS r",
    "RETURN COUNT { MATCH (n) WHERE n.repo = 'z' } AS r",
    "RETURN EXISTS { (n {repo: 'z'}) } AS r",
    "RETURN COLLECT { MATCH (n) RETURN n.repo } AS r",
    "CALL { MATCH (n) RETURN n.repo AS r } RETURN r",
    "RETURN [(n:Function)-->() | n.repo] AS r",
    "RETURN [(n)-[:CALLS]->({repo: 'z'}) | n.repo] AS r",
    "MATCH p = ({repo: 'z'})-[:CALLS*1..2]->() UNWIND nodes(p) AS n RETURN n.repo AS r",
    "MATCH p = shortestPath((a {name: 'f1'})-[:CALLS*]->(b {name: 'f9'})) UNWIND nodes(p) AS n RETURN n.repo AS r",
    "MATCH p = allShortestPaths((a {name: 'f1'})-[:CALLS*]->(b {name: 'f4'})) UNWIND nodes(p) AS n RETURN n.repo AS r",
    "MATCH ((a)-[:CALLS]->(b)){1,2} UNWIND a AS n RETURN n.repo AS r",
    "MATCH (a)-[:CALLS]->+(n {name: 'f3'}) RETURN n.repo AS r",
    "MATCH (n) WITH n.repo AS r, count(*) AS c RETURN r, c ORDER BY c",
    "MATCH (n) WHERE (n)-[:CALLS]->({repo: 'z'}) RETURN n.repo AS r",
    "MATCH (n) WHERE NOT (n)-[:CALLS]->({repo: 'q'}) AND n:Function RETURN n.repo AS r",
    "MATCH (a), (n) WHERE a.id <> n.id RETURN DISTINCT n.repo AS r",
    "MATCH (n:PlaitMigration) RETURN n.title AS r",
    "MATCH (n:PlaitProgress) RETURN n.id AS r",
    "MATCH (n) RETURN {all: collect(n.repo)} AS r",
    "MATCH (n) WITH * RETURN n.repo AS r",
    "MATCH (n/* ) */) RETURN n.repo AS r",
    "MATCH (n // )\n) RETURN n.repo AS r",
]  # fmt: skip


@pytest.mark.parametrize("repo", ["q", "nowhere"])
async def test_nothing_of_another_repository_comes_through(store: CypherStore, repo: str) -> None:
    for text in LEAKS:
        result = await store.query(
            text, {}, max_rows=5000, deadline=Deadline.after(LIMIT_S), repos=(repo,)
        )
        told = {str(cell) for row in result.rows for cell in row}
        assert not any("'z'" in cell or cell == "z" for cell in told), text
        if repo == "nowhere":
            assert told <= {"0", "False", "[]", "None", "{'all': []}"}, text


@pytest.mark.parametrize(
    "text",
    [
        "MATCH ()-->(n) RETURN *",
        "MATCH (plait_scope_1) RETURN plait_scope_1",
        "MATCH (n) RETURN $plait_repositories",
        "MATCH (n) WITH ['z'] AS `plait_scope_1` MATCH () RETURN n",
        "MATCH (n) WHERE exists((n)-->()) RETURN n",
        "MATCH (a), (b) RETURN shortestPath((a)-[:CALLS*..3]->(b)) AS p",
        "MATCH (n) WHERE (n)-[:CALLS*1..2]->() RETURN n",
    ],
)
def test_what_cannot_be_limited_is_refused(text: str) -> None:
    with pytest.raises(CypherRefused):
        guard(text, {"plait_repositories": ["z"]}, repos=("q",))


def test_hostile_texts_are_refused_with_repositories_too() -> None:
    for text, given, _ in HOSTILE:
        with pytest.raises(CypherRefused):
            guard(text, given, repos=("q",))


# -- last: it leaves Neo4j busy until the fixture ends it ------------------------------------------------


async def test_a_query_that_runs_on_at_a_server_of_somebody_else_is_told_of(
    store: CypherStore, server: GraphServer
) -> None:
    if server.name == "arcadedb":
        pytest.skip("killed there")
    with pytest.raises(DeadlineExceeded):
        await unguarded(store, *RUNS_ON[0], 1.0)

    async def told() -> bool:
        return store._endings.ran_on == 1

    await eventually(told)
    assert "run on after they were terminated" in await asyncio.to_thread(check, server.settings)
