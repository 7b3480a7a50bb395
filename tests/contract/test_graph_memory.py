"""Links and their times, on the embedded server and on real Neo4j."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import graph
from graph import plan
from graph.store import CypherStore
from plait.domain.deadline import Deadline
from plait.domain.errors import GraphConflict, InvalidInput
from plait.domain.graph import Edge, Label, Link, Node, stored_edge, stored_link, stored_node
from plait.domain.memory import AsOf
from plait.ports import GraphDelta
from tests.contract.graph_servers import SERVERS, GraphServer, delta, node, running
from tests.neo4j_server import Neo4jServers
from tests.processes import LIMIT_S


@pytest.fixture(scope="module", params=SERVERS)
def graph_server(
    request: pytest.FixtureRequest, plait_home: Path, neo4j_servers: Neo4jServers
) -> Iterator[GraphServer]:
    with running(request.param, plait_home / "contract-graph-memory", neo4j_servers) as server:
        yield server


@pytest.fixture(scope="module")
async def store(graph_server: GraphServer) -> AsyncIterator[CypherStore]:
    opened = await graph.open(graph_server.settings)
    yield opened
    await opened.close()


def layer(repo: str, **given: Any) -> GraphDelta:
    """A delta of episodes and memories."""
    return delta(repo, number=0, fresh=False, **given)


def of_layer(repo: str, name: str, label: Label) -> Node:
    return Node(f"{repo}:{name}", label, name, name, "", 0, 0, "", label.lower())


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


async def digests(store: CypherStore, repo: str) -> dict[tuple[str, str, str, int], bytes]:
    return dict((await store.contents(repo)).edges)


def key(link: Link) -> tuple[str, str, str, int]:
    return link.relation, link.source, link.target, link.id


async def test_links_are_written_once_and_brought_up_to_date(store: CypherStore) -> None:
    repo = "upsert"
    episode, issue = (
        of_layer(repo, "episode/1", Label.EPISODE),
        of_layer(repo, "issue/7", Label.ISSUE),
    )
    said = Link(1, "FIXES", episode.id, issue.id, "text", 0.8, 5, None, 10, None)
    again = msgspec.structs.replace(said, id=2, recorded_from=20)
    await store.apply(layer(repo, nodes=[episode, issue], links=[said]))
    await store.apply(layer(repo, nodes=[issue], links=[said, again]))
    assert await digests(store, repo) == {key(one): stored_link(one) for one in (said, again)}
    closed = msgspec.structs.replace(said, recorded_to=30, valid_to=25)
    await store.apply(layer(repo, links=[closed]))
    assert await digests(store, repo) == {key(one): stored_link(one) for one in (closed, again)}
    # An older state, delivered late, doesn't open it again.
    await store.apply(layer(repo, links=[said]))
    assert await digests(store, repo) == {key(one): stored_link(one) for one in (closed, again)}
    await store.apply(layer(repo, drop_links=[again]))
    assert await digests(store, repo) == {key(closed): stored_link(closed)}


async def test_a_link_waits_for_its_ends_and_comes_back_with_them(store: CypherStore) -> None:
    repo = "ends"
    function, episode = node(repo, "m.f"), of_layer(repo, "episode/1", Label.EPISODE)
    said = Link(1, "TOUCHES", episode.id, function.id, "hunk", 1.0, None, None, 10, None)
    await store.apply(layer(repo, nodes=[episode], links=[said]))
    assert await digests(store, repo) == {}
    await store.apply(delta(repo, nodes=[function], links=[said]))
    assert await digests(store, repo) == {key(said): stored_link(said)}
    await store.apply(delta(repo, number=2, fresh=False, drop_nodes=[function.id]))
    assert await digests(store, repo) == {}
    await store.apply(delta(repo, number=3, fresh=False, nodes=[function], links=[said]))
    assert await digests(store, repo) == {key(said): stored_link(said)}
    # A fresh projection replaces the code and brings the link again.
    await store.apply(delta(repo, number=4, nodes=[function], links=[said]))
    assert await digests(store, repo) == {key(said): stored_link(said)}


async def test_an_edge_of_code_and_a_link_between_the_same_nodes_are_two(
    store: CypherStore,
) -> None:
    repo = "two"
    function, test = node(repo, "m.f"), node(repo, "m.test_f", "Test")
    static = Edge("VALIDATED_BY", function.id, test.id, (3,), "calls", 0.9)
    run = Link(9, "VALIDATED_BY", function.id, test.id, "test-run", 1.0, None, None, 10, None)
    await store.apply(delta(repo, nodes=[function, test], edges=[static], links=[run]))
    code = ("VALIDATED_BY", function.id, test.id, 0)
    assert await digests(store, repo) == {code: stored_edge(static), key(run): stored_link(run)}
    await store.apply(delta(repo, number=2, fresh=False, drop_edges=[static]))
    assert await digests(store, repo) == {key(run): stored_link(run)}
    await store.apply(delta(repo, number=3, fresh=False, edges=[static]))
    await store.apply(layer(repo, drop_links=[run]))
    assert await digests(store, repo) == {code: stored_edge(static)}


async def test_many_links_go_in_transactions_of_500(store: CypherStore) -> None:
    repo = "many"
    runs = [of_layer(repo, f"episode/{i}", Label.EPISODE) for i in range(400)]
    issue = of_layer(repo, "issue/1", Label.ISSUE)
    links = [
        Link(i, "MENTIONS", run.id, issue.id, "text", 1.0, None, None, 10, None)
        for i, run in enumerate(runs, 1)
    ]
    event = layer(repo, nodes=[*runs, issue], links=links)
    cut = plan.transactions(plan.batches(event))
    assert [sum(len(batch.items) for batch in one) <= 500 for one in cut] == [True] * len(cut)
    assert len(cut) > 1
    for _ in range(2):
        await store.apply(event)
        held = await store.contents(repo)
        assert held.edges == {key(one): stored_link(one) for one in links}
        assert held.nodes == {one.id: stored_node(one, repo, {}) for one in (*runs, issue)}


async def test_a_second_try_with_newer_rows_loses_nothing(store: CypherStore) -> None:
    """A delta of the memory layer is computed anew for each try."""
    repo = "newer"
    first, second = (of_layer(repo, f"memory/{i}", Label.MEMORY) for i in (1, 2))
    link = Link(4, "SUPERSEDES", second.id, first.id, "", 1.0, None, None, 10, None)
    event = layer(repo, nodes=[first])
    await store.apply(event)
    grown = replace(event, nodes=[first, second], links=[link])
    await store.apply(grown)
    assert (await store.contents(repo)).nodes.keys() == {first.id, second.id}
    assert await digests(store, repo) == {key(link): stored_link(link)}


async def test_an_older_state_of_a_memory_is_not_taken(store: CypherStore) -> None:
    repo = "state"
    memory = of_layer(repo, "memory/1", Label.MEMORY)

    def version(n: int) -> GraphDelta:
        return layer(repo, nodes=[memory], properties={memory.id: {"version": n, "state": n * 10}})

    for n in (1, 3, 2):
        await store.apply(version(n))
    found = await store._bolt.read("MATCH (m:Memory {id: $id}) RETURN m.version", id=memory.id)
    assert found == [[3]]


async def test_a_fence_keeps_an_older_claim_out(store: CypherStore) -> None:
    repo = "fenced"
    one, two = (of_layer(repo, f"memory/{i}", Label.MEMORY) for i in (1, 2))
    old = replace(layer(repo, nodes=[one]), fence=100)
    await store.apply(replace(layer(repo, nodes=[two]), fence=200))
    with pytest.raises(GraphConflict):
        await store.apply(old)
    assert (await store.contents(repo)).nodes.keys() == {two.id}
    # The fence stands when the repository is gone.
    await store.apply(replace(layer(repo, remove_repo=True), fence=300))
    await store.apply(replace(layer(repo, nodes=[two]), fence=400))
    await store.apply(replace(layer(repo, remove_repo=True), fence=500))
    with pytest.raises(GraphConflict):
        await store.apply(old)
    assert not (await store.contents(repo)).nodes


# -- times ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def story(store: CypherStore) -> str:
    """A diff was said to fix issue 7 from 100 to 200, another one since 150."""
    repo = "story"
    issue = of_layer(repo, "issue/7", Label.ISSUE)
    diffs = [of_layer(repo, f"diff/{n}/pkg/m.py", Label.DIFF) for n in range(2)]
    links = [
        Link(1, "FIXES", diffs[0].id, issue.id, "text", 0.8, None, None, 100, 200),
        Link(2, "FIXES", diffs[1].id, issue.id, "text", 0.8, None, None, 150, None),
    ]
    await store.apply(layer(repo, nodes=[issue, *diffs], links=links))
    return repo


async def test_cypher_gets_the_times_it_names(store: CypherStore, story: str) -> None:
    text = (
        "MATCH (i:Issue {id: 'story:issue/7'})<-[r:FIXES]-(d) WHERE r.recorded_from <= $recorded_as_of "
        "AND (r.recorded_to IS NULL OR r.recorded_to > $recorded_as_of) RETURN d.id AS id ORDER BY id"
    )
    more: dict[str, Any] = {"max_rows": 10, "deadline": Deadline.after(LIMIT_S)}
    found = await store.query(text, {}, as_of=AsOf(recorded=at(120)), **more)
    assert found.rows == [["story:diff/0/pkg/m.py"]]
    found = await store.query(text, {}, **more)
    assert found.rows == [["story:diff/1/pkg/m.py"]]
    found = await store.query(text, {"recorded_as_of": 120}, **more)
    assert found.rows == [["story:diff/0/pkg/m.py"]]
    with pytest.raises(InvalidInput, match="recorded_as_of"):
        await store.query(text, {"recorded_as_of": 1}, as_of=AsOf(recorded=at(120)), **more)
    with pytest.raises(InvalidInput, match="valid_as_of"):
        await store.query(text, {}, as_of=AsOf(valid=at(120)), **more)
