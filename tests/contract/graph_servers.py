"""The graph servers that the graph store's contract runs on, and a model to compare a graph with."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from graph.server import embedded
from graph.store import CypherStore
from plait.domain.graph import Edge, Label, Node
from plait.ports import GraphDelta
from plait.settings import Settings, load
from tests.neo4j_server import LATEST, LTS, Neo4jServers
from tests.processes import PATIENT

SERVERS = [
    pytest.param("arcadedb"),
    pytest.param(LTS, marks=pytest.mark.neo4j, id=f"neo4j-{LTS}"),
    pytest.param(LATEST, marks=pytest.mark.neo4j, id=f"neo4j-{LATEST}"),
]
_events = itertools.count(1)


@dataclass(frozen=True, slots=True)
class GraphServer:
    """`environment` opens it as users do; `pid` 0: not a child of ours."""

    name: str
    settings: Settings
    environment: dict[str, str]
    pid: int

    def cpu_s(self) -> float:
        try:
            spent = psutil.Process(self.pid).cpu_times()
        except psutil.NoSuchProcess:
            if self.name != "arcadedb":
                raise
            # Killed over a query that would not end: another one has taken its place.
            with embedded.ensure(self.settings) as lease:
                spent = psutil.Process(lease.pid).cpu_times()
        return float(spent.user + spent.system)


@contextlib.contextmanager
def running(name: str, home: Path, neo4j_servers: Neo4jServers) -> Iterator[GraphServer]:
    """Without data: an ArcadeDB of its own in `home`, or the session's Neo4j of version `name`."""
    environment = {**PATIENT, "PLAIT_HOME": str(home)}
    if name == "arcadedb":
        settings = load(environ=environment)
        with embedded.ensure(settings) as lease:
            yield GraphServer(name, settings, environment, lease.pid)
    else:
        neo4j = neo4j_servers.empty(name)
        environment |= neo4j.environment()
        yield GraphServer(f"neo4j-{name}", load(environ=environment), environment, neo4j.pid)
        neo4j_servers.released(name)


# -- a small graph ------------------------------------------------------------------------------


def node(repo: str, name: str, label: str = "Function", /, **more: Any) -> Node:
    short = name.rpartition(".")[2]
    kinds = {"Class": "class", "Module": "module", "File": "", "Repo": "repo"}
    values = {
        "id": f"{repo}:{name}",
        "label": label,
        "name": short,
        "qualified_name": name,
        "path": "pkg/mod.py",
        "start_line": 1,
        "end_line": 2,
        "language": "python",
        "kind": kinds.get(label, "function"),
    }
    return Node(**{**values, **more})


def file(repo: str, path: str) -> Node:
    name = path.rpartition("/")[2]
    return node(repo, f"/{path}", "File", name=name, qualified_name=path, path=path)


def calls(repo: str, source: str, target: str, *lines: int, resolver: str = "local") -> Edge:
    return Edge("CALLS", f"{repo}:{source}", f"{repo}:{target}", lines, resolver, 0.9)


def delta(repo: str, **given: Any) -> GraphDelta:
    """A delta with an event id of its own; `fresh` unless said otherwise."""
    values: dict[str, Any] = {
        "event_id": next(_events),
        "repo": repo,
        "number": 1,
        "fresh": True,
        "drop_edges": (),
        "drop_nodes": (),
        "nodes": (),
        "edges": (),
    }
    return GraphDelta(**{**values, **given})


# -- what is in the graph, and what should be -------------------------------------------------------

Nodes = dict[str, tuple[frozenset[str], dict[str, Any]]]
Edges = Counter[tuple[str, str, str, tuple[int, ...], str, float]]


async def contents(store: CypherStore, repo: str) -> tuple[Nodes, Edges]:
    """Everything of `repo`, read past the guard and its caps."""
    bolt = store._bolt
    nodes: Nodes = {}
    text = "MATCH (n) WHERE n.repo = $repo AND NOT n:PlaitProgress RETURN labels(n), properties(n)"
    for labels, properties in await bolt.read(text, repo=repo):
        assert properties["id"] not in nodes, f"{properties['id']} is there twice"
        nodes[properties["id"]] = (frozenset(labels), properties)
    text = (
        "MATCH (a)-[r]->(b) WHERE a.repo = $repo "
        "RETURN type(r), a.id, b.id, r.lines, r.resolver, r.confidence"
    )
    edges: Edges = Counter()
    for relation, source, target, lines, resolver, confidence in await bolt.read(text, repo=repo):
        edges[
            (
                relation,
                source,
                target,
                tuple(lines or ()),
                resolver or "",
                1.0 if confidence is None else confidence,
            )
        ] += 1
    return nodes, edges


def expected(repo: str, nodes: Iterable[Node], edges: Iterable[Edge]) -> tuple[Nodes, Edges]:
    """What `contents` gives for a graph of just these."""
    there: Nodes = {}
    for one in nodes:
        labels = {"Function", "Test"} if one.label == Label.TEST else {one.label}
        properties = {field: getattr(one, field) for field in Node.__struct_fields__}
        properties.pop("label")
        there[one.id] = (frozenset(labels), {**properties, "repo": repo})
    return there, Counter(
        (e.relation, e.source, e.target, tuple(e.lines), e.resolver, e.confidence) for e in edges
    )


def chain(repo: str, n: int) -> tuple[list[Node], list[Edge]]:
    """`n` functions f0 … that each call the next three, and f0 (a hub)."""
    nodes = [node(repo, f"m.f{i}", start_line=i + 1, end_line=i + 2) for i in range(n)]
    edges: dict[tuple[str, str], Edge] = {}
    for i in range(n):
        for target in (0, i + 1, i + 2, i + 3):
            edge = calls(repo, f"m.f{i}", f"m.f{target % n}", i + 1, i + 1)
            edges[edge.source, edge.target] = edge
    return nodes, list(edges.values())


def without(items: Sequence[Edge], gone: Iterable[str]) -> list[Edge]:
    """`items` that touch none of the ids `gone`."""
    ids = set(gone)
    return [e for e in items if e.source not in ids and e.target not in ids]
