"""The promises of `GraphStore.apply`, on the embedded server and on real Neo4j."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graph
from graph import plan, schema
from graph.store import CypherStore
from plait.domain.deadline import Deadline
from plait.domain.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from plait.domain.graph import Edge, Node
from plait.ports import GraphDelta
from tests.contract.graph_servers import (
    SERVERS,
    GraphServer,
    calls,
    chain,
    contents,
    delta,
    expected,
    file,
    node,
    running,
    without,
)
from tests.neo4j_server import Neo4jServers
from tests.processes import LIMIT_S


@pytest.fixture(scope="module", params=SERVERS)
def graph_server(
    request: pytest.FixtureRequest, plait_home: Path, neo4j_servers: Neo4jServers
) -> Iterator[GraphServer]:
    with running(request.param, plait_home / "contract-graph", neo4j_servers) as server:
        yield server


@pytest.fixture(scope="module")
async def store(graph_server: GraphServer) -> AsyncIterator[CypherStore]:
    opened = await graph.open(graph_server.settings)
    yield opened
    await opened.close()


async def test_a_fresh_delta_is_the_graph(store: CypherStore) -> None:
    repo = "fresh"
    nodes = [
        node(repo, "", "Repo"),
        file(repo, "pkg/mod.py"),
        node(repo, "pkg.mod", "Module"),
        node(repo, "pkg.mod.C", "Class"),
        node(repo, "pkg.mod.C.m", "Function", kind="method"),
        node(repo, "pkg.test_m", "Test"),
    ]
    edges = [
        Edge("CONTAINS", "fresh:", "fresh:/pkg/mod.py"),
        Edge("CONTAINS", "fresh:/pkg/mod.py", "fresh:pkg.mod"),
        Edge("CONTAINS", "fresh:pkg.mod", "fresh:pkg.mod.C"),
        calls(repo, "pkg.test_m", "pkg.mod.C.m", 3, 3, 8, resolver="import"),
        Edge("VALIDATED_BY", "fresh:pkg.mod.C.m", "fresh:pkg.test_m", (3,), "calls", 0.9),
    ]
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    assert await contents(store, repo) == expected(repo, nodes, edges)


async def test_every_edge_tells_since_when_it_is_known(store: CypherStore) -> None:
    repo = "since"
    nodes, edges = chain(repo, 5)
    await store.apply(delta(repo, nodes=nodes, edges=edges, recorded_from=1_700_000_000_000))
    text = "MATCH (a {repo: $repo})-[r]->() WHERE r.recorded_from = 1700000000000 RETURN count(r)"
    assert await store._bolt.read(text, repo=repo) == [[len(edges)]]


async def test_batches_are_of_500_and_keep_ids_apart(store: CypherStore) -> None:
    repo = "large"
    nodes, edges = chain(repo, 1201)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    assert await contents(store, repo) == expected(repo, nodes, edges)
    assert all(len(batch.items) <= 500 for batch in plan.batches(delta(repo, nodes=nodes)))


async def test_a_repeated_event_changes_nothing(store: CypherStore) -> None:
    repo = "repeat"
    nodes, edges = chain(repo, 20)
    event = delta(repo, nodes=nodes, edges=edges)
    await store.apply(event)
    await store.apply(event)
    assert await contents(store, repo) == expected(repo, nodes, edges)


async def test_an_event_of_another_truth_store_with_the_same_number_is_not_mistaken(
    store: CypherStore,
) -> None:
    repo = "restored"
    nodes, edges = chain(repo, 10)
    event = delta(repo, nodes=nodes, edges=edges)
    await store.apply(event)
    await store.apply(replace(event, nodes=nodes[:5], edges=edges[:3]))
    assert await contents(store, repo) == expected(repo, nodes[:5], edges[:3])


async def test_a_fresh_event_replaces_what_an_older_one_left(store: CypherStore) -> None:
    repo = "again"
    nodes, edges = chain(repo, 30)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    await store.apply(delta(repo, number=2, nodes=nodes[:4], edges=edges[:2]))
    assert await contents(store, repo) == expected(repo, nodes[:4], edges[:2])


async def test_an_update_keeps_a_nodes_edges(store: CypherStore) -> None:
    repo = "update"
    nodes, edges = chain(repo, 6)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    moved = msgspec.structs.replace(nodes[0], start_line=77, end_line=99)
    await store.apply(delta(repo, number=2, fresh=False, nodes=[moved]))
    assert await contents(store, repo) == expected(repo, [moved, *nodes[1:]], edges)


async def test_an_update_may_change_a_label_and_keeps_the_edges(store: CypherStore) -> None:
    repo = "relabel"
    nodes, edges = chain(repo, 6)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    changed = [
        msgspec.structs.replace(nodes[0], label="Test"),
        msgspec.structs.replace(nodes[1], label="Class", kind="class"),
    ]
    extra = [calls(repo, "m.f0", "m.f5", 9)]
    dropped = [e for e in edges if (e.source, e.target) == (extra[0].source, extra[0].target)]
    await store.apply(
        delta(repo, number=2, fresh=False, drop_edges=dropped, nodes=changed, edges=extra)
    )
    left = [e for e in edges if e not in dropped]
    assert await contents(store, repo) == expected(repo, [*changed, *nodes[2:]], left + extra)


async def test_dropped_nodes_take_their_edges_with_them(store: CypherStore) -> None:
    repo = "dropped"
    nodes, edges = chain(repo, 12)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    gone = [nodes[0].id, nodes[7].id]
    await store.apply(delta(repo, number=2, fresh=False, drop_nodes=gone))
    left = [one for one in nodes if one.id not in gone]
    assert await contents(store, repo) == expected(repo, left, without(edges, gone))


async def test_only_the_named_edges_are_dropped(store: CypherStore) -> None:
    repo = "edges"
    nodes, edges = chain(repo, 12)
    also = Edge("IMPORTS", edges[5].source, edges[5].target)
    await store.apply(delta(repo, nodes=nodes, edges=[*edges, also]))
    await store.apply(delta(repo, number=2, fresh=False, drop_edges=edges[4:8]))
    assert await contents(store, repo) == expected(repo, nodes, [*edges[:4], *edges[8:], also])


async def test_edges_of_a_busy_node_are_dropped(store: CypherStore) -> None:
    """ArcadeDB keeps a node's edges in blocks: one that was emptied must not be walked any more."""
    repo = "busy"
    functions = [node(repo, f"f{i}") for i in range(5)]
    tests = [node(repo, f"test_{i}", "Test") for i in range(180)]
    kept = [calls(repo, f.name, "f0", 1) for f in functions]
    gone = [Edge("VALIDATED_BY", f.id, t.id, (1,), "calls", 0.9) for f in functions for t in tests]
    await store.apply(delta(repo, nodes=[*functions, *tests], edges=[*kept, *gone]))
    await store.apply(delta(repo, number=2, fresh=False, drop_edges=gone))
    assert await contents(store, repo) == expected(repo, [*functions, *tests], kept)


@pytest.mark.parametrize("seed", range(3))
async def test_incremental_is_the_same_as_clean(store: CypherStore, seed: int) -> None:
    """Random edits, applied as deltas, give the graph that a fresh delta of the end state gives."""
    repo, rng = f"random{seed}", random.Random(seed)
    nodes = {one.id: one for one in (node(repo, f"m.f{i}") for i in range(40))}
    edges: dict[tuple[str, str, str], Edge] = {}
    first = True
    for number in range(1, 7):
        drop_nodes, new_nodes, drop_edges = [], [], []
        for id_ in [] if first else rng.sample(sorted(nodes), 6):
            if rng.random() < 0.5:
                drop_nodes.append(id_)
                del nodes[id_]
            else:
                label = rng.choice(["Function", "Test", "Class"])
                line = rng.randint(1, 99)
                nodes[id_] = msgspec.structs.replace(nodes[id_], label=label, start_line=line)
                new_nodes.append(nodes[id_])
        for i in range(0 if first else 4):
            fresh = node(repo, f"m.n{number}_{i}")
            nodes[fresh.id] = fresh
            new_nodes.append(fresh)
        edges = {k: e for k, e in edges.items() if e.source in nodes and e.target in nodes}
        for key in rng.sample(sorted(edges), min(len(edges), 15)):
            drop_edges.append(edges.pop(key))
        made = {}
        for _ in range(30):
            relation = rng.choice(["CALLS", "IMPORTS", "VALIDATED_BY"])
            key = (relation, rng.choice(sorted(nodes)), rng.choice(sorted(nodes)))
            if key not in edges:
                made[key] = Edge(*key, (rng.randint(1, 9),), "local", 0.5)
        edges |= made
        await store.apply(
            delta(
                repo,
                number=number,
                fresh=first,
                nodes=list(nodes.values()) if first else new_nodes,
                edges=list(made.values()),
                drop_nodes=drop_nodes,
                drop_edges=drop_edges,
            )
        )
        first = False
        assert await contents(store, repo) == expected(repo, nodes.values(), edges.values())


async def test_an_answer_lost_after_commit_applies_a_batch_once(
    store: CypherStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = "lost"
    nodes, edges = chain(repo, 1100)
    transact, count = store._bolt.transact, 0

    async def flaky(work: Any) -> Any:
        nonlocal count
        count += 1
        if count % 3 == 1:  # nothing reached the server
            raise StoreUnavailable("the connection broke")
        out = await transact(work)
        if count % 3 == 2:  # it was committed, but we did not hear of it
            raise StoreUnavailable("the connection broke")
        return out

    monkeypatch.setattr(store._bolt, "transact", flaky)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    monkeypatch.undo()
    assert count > len(plan.batches(delta(repo, nodes=nodes, edges=edges)))
    assert await contents(store, repo) == expected(repo, nodes, edges)


async def test_two_appliers_of_one_event_apply_it_once(
    store: CypherStore, graph_server: GraphServer
) -> None:
    repo = "twice"
    nodes, edges = chain(repo, 900)
    event = delta(repo, nodes=nodes, edges=edges)
    other = await graph.open(graph_server.settings)
    try:
        await asyncio.gather(store.apply(event), other.apply(event))
    finally:
        await other.close()
    assert await contents(store, repo) == expected(repo, nodes, edges)


APPLIER = """
import asyncio, json, sys
import msgspec
import graph
from plait.domain.graph import Edge, Node
from plait.ports import GraphDelta
from plait.settings import load

async def main():
    environment, path = json.loads(sys.argv[1]), sys.argv[2]
    with open(path, "rb") as f:
        given = msgspec.msgpack.decode(f.read(), type=dict[str, msgspec.Raw])
    kinds = {"nodes": list[Node], "edges": list[Edge], "drop_edges": list[Edge]}
    values = {k: msgspec.msgpack.decode(v, type=kinds.get(k, object)) for k, v in given.items()}
    store = await graph.open(load(environ=environment))
    print("open", flush=True)
    await store.apply(GraphDelta(**values))

asyncio.run(main())
"""


@pytest.mark.parametrize("at_batch", [2, 5])
async def test_a_killed_applier_is_continued_exactly(
    store: CypherStore, graph_server: GraphServer, tmp_path: Path, at_batch: int
) -> None:
    repo = f"killed{at_batch}"
    nodes, edges = chain(repo, 1500)
    event = delta(repo, nodes=nodes, edges=edges)
    path = tmp_path / "delta"
    path.write_bytes(msgspec.msgpack.encode(_as_dict(event)))
    process = subprocess.Popen(  # noqa: ASYNC220 - it is polled, not waited for
        [sys.executable, "-P", "-c", APPLIER, json.dumps(graph_server.environment), str(path)]
    )
    progress = "MATCH (p:PlaitProgress {id: $repo}) RETURN p.batch, p.done"
    while process.poll() is None:
        rows = await store._bolt.read(progress, repo=repo)
        if rows and rows[0][0] >= at_batch:
            break
        await asyncio.sleep(0.005)
    process.kill()
    process.wait()
    rows = await store._bolt.read(progress, repo=repo)
    assert rows[0][0] >= at_batch
    await store.apply(event)
    assert await contents(store, repo) == expected(repo, nodes, edges)
    assert await store._bolt.read(progress, repo=repo) == [[len(plan.batches(event)), True]]


def _as_dict(event: GraphDelta) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__slots__}


async def test_removal_leaves_nothing_of_the_repository_and_all_of_others(
    store: CypherStore,
) -> None:
    nodes, edges = chain("gone", 700)
    others, their_edges = chain("gone2", 8)
    await store.apply(delta("gone", nodes=nodes, edges=edges))
    await store.apply(delta("gone2", nodes=others, edges=their_edges))
    await store.apply(delta("gone", number=0, fresh=False, remove_repo=True))
    assert await contents(store, "gone") == ({}, {})
    assert await store._bolt.read("MATCH (p:PlaitProgress {repo: 'gone'}) RETURN p.id") == []
    assert await contents(store, "gone2") == expected("gone2", others, their_edges)
    await store.apply(delta("gone", nodes=nodes[:2], edges=edges[:1]))
    assert await contents(store, "gone") == expected("gone", nodes[:2], edges[:1])


async def test_readers_do_not_trip_over_what_is_being_deleted(
    graph_server: GraphServer, store: CypherStore
) -> None:
    repo = "churned"
    nodes, edges = chain(repo, 300)
    other = await graph.open(graph_server.settings)
    read = 0

    async def reading(ask: Callable[[], Awaitable[object]], until: asyncio.Event) -> None:
        nonlocal read
        while not until.is_set():
            await ask()
            read += 1

    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: other.contents(repo),
        lambda: other.counts(repo),
        lambda: other.query(
            "MATCH (n:Function)-[:CALLS]->(m) RETURN n.name, m.name",
            {},
            max_rows=1000,
            deadline=Deadline.after(LIMIT_S),
        ),
    ]
    done = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as tasks:
            for ask in asks:
                tasks.create_task(reading(ask, done))
            number = 0
            while number < 20 or read <= len(asks):
                number += 1
                await store.apply(delta(repo, nodes=nodes, edges=edges, number=number))
            done.set()
    finally:
        await other.close()
    assert await contents(store, repo) == expected(repo, nodes, edges)


async def test_an_episode_adds_to_the_code_and_outlives_a_new_index(store: CypherStore) -> None:
    repo = "episodes"
    nodes, edges = chain(repo, 5)
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    episode = Node("episodes:episode/1", "Episode", "fix", "", "", 0, 0, "", "success")
    event = delta(
        repo,
        number=0,
        nodes=[episode],
        edges=[
            Edge("TOUCHES", episode.id, nodes[0].id),
            Edge("TOUCHES", episode.id, "episodes:not.there"),
        ],
        properties={episode.id: {"summary": "It's «done»", "score": 0.5, "tags": ["a", "b"]}},
    )
    await store.apply(event)
    await store.apply(event)
    there, links = await contents(store, repo)
    assert there[episode.id][0] == {"Episode"}
    assert there[episode.id][1]["summary"] == "It's «done»"
    assert there[episode.id][1]["tags"] == ["a", "b"]
    assert links[("TOUCHES", episode.id, nodes[0].id, (), "", 1.0)] == 1
    assert sum(links.values()) == len(edges) + 1
    await store.apply(delta(repo, number=2, nodes=nodes, edges=edges))
    assert episode.id in (await contents(store, repo))[0]


async def test_hostile_names_are_only_names(store: CypherStore) -> None:
    repo = 'it\'s `a` "repo"\\'
    name = "x'}) DETACH DELETE n //`\"\\u0027 \N{SNOWMAN}\N{PILE OF POO}"
    nodes = [node(repo, name), node(repo, "plain")]
    edges = [calls(repo, name, "plain", 1, resolver="'`\"")]
    await store.apply(delta(repo, nodes=nodes, edges=edges))
    assert await contents(store, repo) == expected(repo, nodes, edges)


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": [node("bad", "f", "Function) DETACH DELETE (n")]},
        {"edges": [Edge("CALLS`]->() //", "bad:a", "bad:b")]},
        {"drop_edges": [Edge("NO_SUCH", "bad:a", "bad:b")]},
        {"nodes": [node("bad", "f")], "properties": {"bad:f": {"x: 1}) //": 1}}},
        {"nodes": [node("bad", "f")], "properties": {"bad:f": {"repo": "other"}}},
    ],
)
async def test_names_that_go_into_the_text_are_checked(
    store: CypherStore, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await store.apply(delta("bad", **given))


async def test_counts_are_by_label_and_relation(store: CypherStore) -> None:
    repo = "counts"
    nodes = [node(repo, "a"), node(repo, "b", "Test"), node(repo, "C", "Class")]
    await store.apply(delta(repo, nodes=nodes, edges=[calls(repo, "b", "a", 1)]))
    assert await store.counts(repo) == {"Function": 2, "Test": 1, "Class": 1, "CALLS": 1}
    assert (await store.counts())["Function"] >= 2
    assert await store.counts("no such repo") == {}


# -- the schema --------------------------------------------------------------------------------------


async def test_opening_again_finds_the_schema_as_it_is(
    store: CypherStore, graph_server: GraphServer
) -> None:
    one, two = await asyncio.gather(
        graph.open(graph_server.settings), graph.open(graph_server.settings)
    )
    await one.close()
    await two.close()
    rows = await store._bolt.read("MATCH (m:PlaitMigration) RETURN m.version, m.checksum")
    assert sorted(rows) == [[m.version, m.checksum] for m in schema.MIGRATIONS]


@pytest.mark.parametrize("version", [1, 999])
async def test_a_schema_of_another_plait_is_refused(
    store: CypherStore, graph_server: GraphServer, version: int
) -> None:
    set_ = "MERGE (m:PlaitMigration {version: $version}) SET m.checksum = $checksum"
    await store._bolt.write((set_, {"version": version, "checksum": "another"}))
    try:
        with pytest.raises(SchemaMismatch, match=f"migration {version} "):
            await graph.open(graph_server.settings)
    finally:
        if version == 999:
            undo = "MATCH (m:PlaitMigration {version: 999}) DELETE m"
            await store._bolt.write((undo, {}))
        else:
            right = {"version": 1, "checksum": schema.MIGRATIONS[0].checksum}
            await store._bolt.write((set_, right))


async def test_an_id_is_there_once_even_past_the_writer(store: CypherStore) -> None:
    await store.apply(delta("unique", nodes=[node("unique", "f")]))
    twice = "CREATE (n:Function:Test {id: 'unique:f', repo: 'unique'})"
    with pytest.raises(Exception, match=r"(?i)unique|duplicated|already exists"):
        await store._bolt.write((twice, {}))
