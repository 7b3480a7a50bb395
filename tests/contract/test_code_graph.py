"""RelationStore's promises on every PostgreSQL: the code graph of a revision, links, what is behind nodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from msgspec import structs

from etl.truth import open as open_truth
from plait.domain.memory import AsOf
from plait.domain.scope import qualify
from plait.domain.values import Collection, Filter
from plait.ports import CodeGraph, View
from plait.settings import IndexSettings, Settings
from tests.contract.test_episode_links import MEAN, diff, episode, indexed, project, root
from tests.contract.test_scopes import index_for
from tests.contract.test_search_as_of import age_revisions
from tests.processes import LIMIT_S, eventually
from vector.search.relations_cache import GraphCache
from vector.store import Store

__all__ = ["indexed", "root"]  # fixtures

IndexFiles = Callable[..., Awaitable[Any]]
Indexed = Callable[..., Awaitable[None]]
AGENTS = tuple(c for c in Collection if c is not Collection.FILES)

CODE = {
    "src/http.toy": ["send: open_socket", "open_socket:"],
    "src/util.toy": ["join_paths: send gone"],
    "test_http.toy": ["test_send: send"],
}


def told(graph: CodeGraph | None) -> tuple[set[Any], set[Any]]:
    """Nodes and edges, whatever the order of rows."""
    assert graph is not None
    nodes = {
        (id_, graph.names[row], graph.paths[row], int(graph.lines[row]), bool(graph.is_test[row]))
        for row, id_ in enumerate(graph.ids)
    }
    edges = {
        (graph.ids[row], graph.relations[graph.out_relation[at]], graph.ids[graph.out_other[at]])
        for row in range(len(graph.ids))
        for at in range(int(graph.out_start[row]), int(graph.out_start[row + 1]))
    }
    return nodes, edges


async def read(store: Store, repo: str = "r", view: View | None = None) -> CodeGraph | None:
    view = view or await store.search.view(Filter(repos=(repo,)))
    return await store.relations.code_graph(view, repo, wait_s=LIMIT_S)


async def test_the_graph_is_the_revision_s(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    graph = await read(store)
    nodes, edges = told(graph)
    assert {"src.http.send", "src.util.join_paths", "/src/http.toy"} <= {node[0] for node in nodes}
    assert {e for e in edges if e[1] == "CALLS"} == {
        ("src.http.send", "CALLS", "src.http.open_socket"),
        ("src.util.join_paths", "CALLS", "src.http.send"),
        ("test_http.test_send", "CALLS", "src.http.send"),
    }
    assert ("/src/http.toy", "CONTAINS", "src.http.send") in edges
    assert graph is await read(store), "kept and shared"


async def test_it_is_read_in_the_background(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter(repos=("r",)))
    assert store.relations.graph_state(view, "r") == "loading"
    assert await store.relations.code_graph(view, "r") is None

    async def ready() -> bool:
        return store.relations.graph_state(view, "r") == "ready"

    await eventually(ready)
    assert await store.relations.code_graph(view, "r") is not None
    assert store.relations.graph_state(view, "elsewhere") == "none"


async def test_many_who_ask_together_read_once(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index(store, "r", CODE)
    reads = 0
    whole = GraphCache._read

    async def counted(self: GraphCache, *given: Any) -> Any:
        nonlocal reads
        reads += 1
        return await whole(self, *given)

    monkeypatch.setattr(GraphCache, "_read", counted)
    graphs = await asyncio.gather(*(read(store) for _ in range(8)))
    assert reads == 1
    assert len({id(graph) for graph in graphs}) == 1


async def test_a_later_revision_is_read_as_a_clean_one(
    store: Store, other: Store, index: IndexFiles
) -> None:
    chance = random.Random(5)
    files: dict[str, list[str]] = {}
    for step in range(12):
        for _ in range(3):
            path = f"{chance.choice('abcd')}/{chance.choice('xyz')}.toy"
            if chance.random() < 0.25:
                files.pop(path, None)
            else:
                names = [f"f{chance.randrange(9)}" for _ in range(chance.randrange(1, 4))]
                files[path] = [f"{n}: f{chance.randrange(9)}" for n in dict.fromkeys(names)]
        files["always.toy"] = [f"step{step}: f1 f2"]
        await index(store, "r", files)
        incremental = told(await read(store))
        fresh = GraphCache(1 << 30)
        other.relations._graphs, kept = fresh, other.relations._graphs
        assert told(await read(other)) == incremental
        await kept.close()


async def test_an_earlier_revision_is_read_after_a_later_one(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    before = await store.search.view(Filter(repos=("r",)))
    was = told(await read(store, view=before))
    store.relations._graphs = GraphCache(1 << 30)
    await index(store, "r", {**CODE, "src/util.toy": ["other: open_socket"]})
    now = told(await read(store))
    assert ("src.util.other", "CALLS", "src.http.open_socket") in now[1]
    assert told(await read(store, view=before)) == was


async def test_a_revision_that_was_collected_is_not_given_in_part(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    before = await store.search.view(Filter(repos=("r",)))
    await index(store, "r", {**CODE, "src/util.toy": ["other: open_socket"]})
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("DELETE FROM plait.graph_member WHERE rev_to IS NOT NULL")
        conn.execute("UPDATE plait.repository SET collected = 2")
    store.relations._graphs = GraphCache(1 << 30)
    assert await read(store, view=before) is None


async def test_a_file_that_was_removed_and_collected_is_not_kept(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await read(store)
    left = {path: lines for path, lines in CODE.items() if path != "src/util.toy"}
    for step in range(3):  # nobody reads these, and the first of them is collected
        await index(store, "r", {**left, "more.toy": [f"step{step}:"]})
    nodes, _ = told(await read(store))
    assert "src/util.toy" not in {path for _, _, path, _, _ in nodes}
    assert "more.step2" in {id_ for id_, *_ in nodes}


async def test_a_revision_that_is_kept_has_its_graph(
    store: Store, index: IndexFiles, truth_settings: Settings, truth_dsn: str
) -> None:
    keeping = {"index": IndexSettings(keep_s=3600.0)}
    keeper = await open_truth(structs.replace(truth_settings, **keeping))
    try:
        await index(keeper, "r", {"a.toy": ["gone:"]})
        await index(keeper, "r", CODE)
        was = told(await read(keeper))
        for step in range(2):
            await index(keeper, "r", {**CODE, "src/util.toy": [f"other{step}: send"]})
        age_revisions(truth_dsn, {1: "3 hours", 2: "2 hours", 3: "1 minute"})
        await index(keeper, "r", {"a.toy": ["five:"]})  # collects what is older than an hour
        hour_ago = AsOf(recorded=datetime.now(UTC) - timedelta(minutes=55))
        then = await keeper.search.view(Filter(repos=("r",), as_of=hour_ago))
        assert [r.number for r in then.revisions] == [2]
        keeper.relations._graphs = GraphCache(1 << 30)
        assert told(await read(keeper, view=then)) == was
    finally:
        await keeper.close()


async def test_more_edges_than_are_kept_is_said(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter(repos=("r",)))
    kept, store.relations._graphs = store.relations._graphs, GraphCache(3)
    try:
        assert await read(store, view=view) is None
        assert store.relations.graph_state(view, "r") == "too_large"
    finally:
        store.relations._graphs = kept


async def test_the_least_used_leave_first(store: Store, index: IndexFiles) -> None:
    for repo in ("a", "b", "c"):
        await index(store, repo, CODE)
    one = await read(store, "a")
    assert one is not None
    kept, store.relations._graphs = store.relations._graphs, GraphCache(2 * len(one.out_other))
    try:
        for repo in ("a", "b", "a", "c"):
            await read(store, repo)
        view = await store.search.view(Filter())
        states = {repo: store.relations.graph_state(view, repo) for repo in ("a", "b", "c")}
        assert states == {"a": "ready", "b": "loading", "c": "ready"}
    finally:
        store.relations._graphs = kept


async def test_another_tenant_s_graph_is_none(store: Store) -> None:
    for tenant in ("default", "acme"):
        await index_for(store, tenant, qualify(tenant, "r"), {"a.toy": [f"of_{tenant}:"]})
    mine = await store.search.view(Filter(tenant="acme"))
    theirs = await read(store, qualify("acme", "r"), view=mine)
    assert "a.of_acme" in {node[0] for node in told(theirs)[0]}
    assert await read(store, "r", view=mine) is None
    # A view with somebody else's revisions in it: row security shows none of their rows.
    forged = replace(await store.search.view(Filter()), tenant="acme")
    store.relations._graphs = GraphCache(1 << 30)
    graph = await read(store, "r", view=forged)
    assert graph is None or not graph.ids


# -- behind nodes ------------------------------------------------------------------------------------


async def test_chunks_of_symbols_are_the_first_ones(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    where = Filter(repos=("r",))
    view = await store.search.view(where)
    asked = [
        ("r", "src/http.toy", "src.http.send"),
        ("r", "src/http.toy", "src.http.missing"),
        ("elsewhere", "src/http.toy", "src.http.send"),
        ("r", "src/util.toy", "src.util.join_paths"),
        ("r", "src/http.toy", "src.http.send"),
        ("r", "src/http.toy\0", "src.http\0.send"),
    ]
    found = await store.search.chunks_of(view, asked, where)
    items = await store.search.fetch(view, [id_ for id_ in found if id_ is not None])
    assert [items[id_].symbol if id_ else None for id_ in found] == [
        "src.http.send", None, None, "src.util.join_paths", "src.http.send", None,
    ]  # fmt: skip
    assert await store.search.chunks_of(view, [], where) == []
    narrowed = Filter(repos=("r",), path_glob="src/util*")
    assert [bool(i) for i in await store.search.chunks_of(view, asked[:4], narrowed)] == [
        False
    ] * 3 + [True]
    notes = Filter(repos=("r",), collections=(Collection.MEMORIES,))
    assert await store.search.chunks_of(view, asked[:1], notes) == [None]


async def test_links_of_code_lead_to_the_run_s_items(
    store: Store, indexed: Indexed, truth_settings: Settings
) -> None:
    await indexed()
    first = await store.episodes.append(
        episode(1, diff(), summary="guard for no prices, fixes #12")
    )
    await project(store)
    where = Filter(repos=("shop",), collections=tuple(Collection))
    view = await store.search.view(where)
    links = await store.relations.links(view, [("shop", MEAN), ("shop", MEAN), ("other", MEAN)], 50)
    touched = [x for x in links if x.relation == "TOUCHES"]
    assert {x.target for x in touched} == {MEAN}
    sources = {x.source for x in touched}
    assert f"diff/{first.item_ids[0]}/shop/cart.py" in sources
    behind = await store.relations.items_of(view, [("shop", name) for name in sources], where, 50)
    assert set(behind) >= {("shop", f"diff/{first.item_ids[0]}/shop/cart.py")}
    assert {i for ids in behind.values() for i in ids} <= set(first.item_ids)
    of_issue = await store.relations.links(view, [("shop", "issue/12")], 50)
    assert {x.relation for x in of_issue} >= {"FIXES"}
    assert len(await store.relations.links(view, [("shop", MEAN), ("shop", "issue/12")], 1)) == 1
    assert await store.relations.links(view, [], 50) == []
    assert await store.relations.links(view, [("shop", "\0")], 50) == []
    nothing = Filter(repos=("shop",), collections=(Collection.FILES,))
    assert await store.relations.items_of(view, [("shop", x) for x in sources], nothing, 50) == {}
    assert await store.relations.items_of(view, [("shop", "diff/no-uuid/x")], where, 50) == {}


async def test_links_are_those_of_the_view_s_time(store: Store, indexed: Indexed) -> None:
    await indexed()
    early = await store.search.view(Filter(repos=("shop",)))
    assert early.valid is not None
    await store.episodes.append(episode(1, diff(), summary="guard"))
    await project(store)
    now = await store.search.view(Filter(repos=("shop",)))
    assert await store.relations.links(now, [("shop", MEAN)], 50)
    assert (
        await store.relations.links(replace(now, recorded=early.valid), [("shop", MEAN)], 50) == []
    )
    before = replace(now, valid=early.valid - timedelta(days=4000))
    assert await store.relations.links(before, [("shop", MEAN)], 50) == []
    later = AsOf(recorded=early.valid + timedelta(days=1))
    then = await store.search.view(Filter(repos=("shop",), collections=AGENTS, as_of=later))
    assert await store.relations.links(then, [("shop", MEAN)], 50)
