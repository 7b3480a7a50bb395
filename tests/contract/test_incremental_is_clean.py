"""However a repository came to its files, search and graph show what a clean index of them shows."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.domain.graph import Edge, Node
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.ports import GraphDelta
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]
Files = Mapping[str, list[str]]

NAMES = ("alpha", "beta", "gamma", "delta")
PATHS = ("a.toy", "b.toy", "pkg/c.toy", "test_d.toy")
_fresh = itertools.count()


@st.composite
def sources(draw: st.DrawFn) -> list[str]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return [f"{n}: {' '.join(draw(st.lists(st.sampled_from(NAMES), max_size=2)))}" for n in names]


histories = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(PATHS), sources(), min_size=1),
        st.booleans(),  # the projector runs now, or lags behind
        st.booleans(),  # a draft breaks off before
        st.booleans(),  # an episode is appended
    ),
    min_size=1,
    max_size=5,
)


class Graph:
    """A graph that holds deltas to their word: what is dropped exists, what is new does not, and no
    edge hangs in the air."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str, str], Edge] = {}
        self.properties: dict[str, Mapping[str, Any]] = {}

    def apply(self, delta: GraphDelta, *, half: bool = False) -> None:
        """`half`: stop before the edges, as a crash would."""
        if delta.remove_repo:
            self.__init__()  # type: ignore[misc]
            return
        if delta.fresh:
            assert not delta.drop_edges
            assert not delta.drop_nodes
        for edge in delta.drop_edges:
            self.edges.pop((edge.relation, edge.source, edge.target), None)
        for id_ in delta.drop_nodes:
            self.nodes.pop(id_, None)
            self.edges = {k: e for k, e in self.edges.items() if id_ not in k[1:]}
        self.nodes |= {node.id: node for node in delta.nodes}
        self.properties |= delta.properties
        if half:
            return
        for edge in delta.edges:
            key = (edge.relation, edge.source, edge.target)
            assert key not in self.edges, f"{key} is written twice"
            assert edge.source in self.nodes, edge
            assert edge.target in self.nodes, edge
            self.edges[key] = edge

    def code(self, repo: str) -> tuple[dict[str, Any], dict[Any, Any]]:
        """Nodes and edges without the repository's name, and without episodes' own ids."""

        def bare(text: str) -> str:
            return text.replace(f"{repo}:", ":").replace(repo, "R")

        nodes = {
            bare(n.id): (n.label, n.qualified_name, n.path, n.start_line, n.end_line)
            for n in self.nodes.values()
            if n.label not in ("Episode", "Memory", "Repo")
        }
        edges = {
            tuple(map(bare, k)): e.lines for k, e in self.edges.items() if "episode/" not in k[1]
        }
        return nodes, edges

    def links(self, repo: str) -> list[tuple[str, str]]:
        return sorted(
            (relation, target.removeprefix(repo))
            for relation, source, target in self.edges
            if "episode/" in source
        )


async def project(store: Store, graph: Graph) -> None:
    while (delta := await store.outbox.claim()) is not None:
        graph.apply(delta)
        await store.outbox.done(delta.event_id)


async def searched(store: Store, repo: str) -> dict[str, Any]:
    """For every word: what is found and how well, free of ids."""
    where = Filter(repos=(repo,))
    view = await store.search.view(where)
    answers: dict[str, Any] = {}
    for term in (*NAMES, "toy", "test"):
        found = await store.search.lexical(view, [term, "pkg"], where, 100)
        items = await store.search.fetch(view, [c.id for c in found])
        assert len(items) == len(found)
        answers[term] = sorted(
            (c.score, items[c.id].path, items[c.id].symbol, items[c.id].content) for c in found
        )
    return answers


@pytest.mark.parametrize("crash", [False, True], ids=["", "with crashes of the projector"])
async def test_incremental_equals_clean(store: Store, index: IndexFiles, crash: bool) -> None:
    @settings(
        max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(histories)
    def run(history: list[tuple[Files, bool, bool, bool]]) -> None:
        examples.append(history)

    examples: list[list[tuple[Files, bool, bool, bool]]] = []
    run()
    for history in examples:
        await check(store, index, history, crash=crash)


async def check(
    store: Store,
    index: IndexFiles,
    history: list[tuple[Files, bool, bool, bool]],
    *,
    crash: bool,
) -> None:
    repo, clean = f"inc{next(_fresh)}", f"clean{next(_fresh)}"
    graph, clean_graph = Graph(), Graph()
    episodes = 0
    for files, projects, breaks, appends in history:
        if breaks:
            await index(store, repo, {"a.toy": ["broken: alpha"]}, publish=False)
            await store.index.close()
        await index(store, repo, files)
        if appends:
            episodes += 1
            await store.episodes.append(episode(repo, episodes))
        if crash and (delta := await store.outbox.claim()) is not None:
            graph.apply(delta, half=True)
            await store.outbox.close()
        if projects:
            await project(store, graph)
    await project(store, graph)
    await index(store, clean, history[-1][0])
    for n in range(1, episodes + 1):
        await store.episodes.append(episode(clean, n))
    await project(store, clean_graph)

    assert await searched(store, repo) == await searched(store, clean)
    assert graph.code(repo) == clean_graph.code(clean)
    assert graph.links(repo) == clean_graph.links(clean)
    revision = await store.repositories.revision(repo)
    assert revision.graph_number == revision.number
    assert not (await store.outbox.epoch([repo]))[1]

    rebuilt = Graph()
    await store.outbox.reset(repo)
    await project(store, rebuilt)
    assert rebuilt.code(repo) == graph.code(repo)
    assert rebuilt.links(repo) == graph.links(repo)


def episode(repo: str, n: int) -> Episode:
    artifacts = [
        Artifact(ArtifactKind.DIFF, "--- a/x\n+++ b/a.toy\n+++ b/gone.toy\n"),
        Artifact(ArtifactKind.NOTE, "see alpha", path="pkg/c.toy", meta={"symbol": "b.alpha"}),
    ]
    return Episode(f"{repo}-{n}", repo, Outcome("success"), artifacts, body_hash=b"h")


async def test_memories_outlive_code(store: Store, index: IndexFiles) -> None:
    """Items without revisions stay when every file was changed and collected."""
    await store.episodes.append(episode("r", 1))
    for n in range(4):
        await index(store, "r", {"a.toy": [f"name{n}:"]})
    where = Filter(repos=("r",), collections=(Collection.DIFFS, Collection.MEMORIES))
    found = await store.search.lexical(await store.search.view(where), ["alpha", "toy"], where, 10)
    assert len(found) == 2
