"""Templates answered from rows say what Cypher says of the same graph, on either graph server: over five real
packages, and over the runs of an agent. The Cypher is that of docs/cypher-recipes.md."""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import graph
from etl.pipeline import graph_parts
from graph.store import CypherStore
from plait.domain.answers.graph import GraphEdge, GraphNode, GraphResult
from plait.domain.deadline import Deadline
from plait.domain.graph import Label, Relation, encode_edges, encode_nodes
from plait.domain.values import Collection, Filter
from plait.ports import CodeGraph
from plait.retrieval.code_graph.templates import answers, memories
from plait.retrieval.code_graph.templates.catalogue import CATALOGUE, find
from plait.retrieval.code_graph.templates.cells import Limits
from plait.settings import Settings, load
from tests.contract.graph_servers import SERVERS, GraphServer, delta, running
from tests.contract.test_episode_links import CHAIN, GOOD, MEAN, indexed, project, root
from tests.documents import ROOT, blocks
from tests.neo4j_server import Neo4jServers
from tests.processes import LIMIT_S, PATIENT
from vector.search import codegraph
from vector.store import Store

__all__ = ["indexed", "root"]  # fixtures

PACKAGES = {
    "httpx": "python",
    "tenacity": "python",
    "h11": "python",
    "node_modules/zod/src/v4/classic": "typescript",
    "node_modules/cross-spawn": "javascript",
}
EACH = 6  # symbols of each package, a template
LIMITS = Limits(5_000, 1 << 26)
PAGE = "docs/cypher-recipes.md"
_NAMED = re.compile(r"^`(\w+)`: .*?^```cypher\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = dict(_NAMED.findall((ROOT / PAGE).read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Package:
    graph: CodeGraph
    nodes: Sequence[Any]
    edges: Sequence[Any]

    def with_edge(self, relation: Relation, *, into: bool) -> list[str]:
        """Ids at one end of such an edge, in order."""
        return sorted(
            {e.target if into else e.source for e in self.edges if e.relation == relation}
        )

    def some(self, ids: Sequence[str], label: Label | None = None) -> list[str]:
        graph = self.graph
        fit = [id_ for id_ in ids if label is None or self.label(id_) == label]
        return random.Random(len(graph.ids)).sample(fit, min(EACH, len(fit)))

    def label(self, id_: str) -> str:
        row = self.graph.row[id_.partition(":")[2]]
        label = self.graph.labels[self.graph.label[row]]
        return Label.FUNCTION if label == Label.TEST else label


def read(root: Path, repo: str, settings: Settings) -> Package:
    names, parts, nodes, edges = codegraph.Names(), [], [], []
    for number, (its_nodes, its_edges) in enumerate(graph_parts(root, repo, settings)):
        nodes += its_nodes
        edges += its_edges
        if number:  # the first is the repository's own node
            path = its_nodes[0].path
            blobs = encode_nodes(its_nodes), encode_edges(its_edges)
            parts.append(codegraph.part(repo, path, *blobs, names))
    return Package(codegraph.build(repo, 1, parts, names), nodes, edges)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory, plait_home: Path) -> dict[str, Package]:
    settings = load(environ={**PATIENT, "PLAIT_HOME": str(plait_home / "templates")})
    found = {}
    for name in PACKAGES:
        repo = name.rpartition("/")[2]
        spec = find_spec(name) if "/" not in name else None
        source = Path(spec.origin).parent if spec and spec.origin else ROOT / name
        root = tmp_path_factory.mktemp("packages") / repo
        shutil.copytree(source, root, ignore=shutil.ignore_patterns("__pycache__"))
        found[repo] = read(root, repo, settings)
    return found


@pytest.fixture(scope="module", params=SERVERS)
def graph_server(
    request: pytest.FixtureRequest, plait_home: Path, neo4j_servers: Neo4jServers
) -> Iterator[GraphServer]:
    with running(request.param, plait_home / "contract-templates", neo4j_servers) as server:
        yield server


@pytest.fixture(scope="module")
async def held(
    graph_server: GraphServer, packages: dict[str, Package]
) -> AsyncIterator[CypherStore]:
    """All packages are in it."""
    opened = await graph.open(graph_server.settings)
    for repo, package in packages.items():
        await opened.apply(delta(repo, nodes=package.nodes, edges=package.edges))
    yield opened
    await opened.close()


async def ask(held: CypherStore, text: str, **given: Any) -> GraphResult:
    return await held.query(text, given, max_rows=5_000, deadline=Deadline.after(LIMIT_S))


def told(package: Package, name: str, **given: Any) -> GraphResult:
    return answers.answer(package.graph, name, find(name).check(given), LIMITS)


def labelled(text: str, variable: str, label: str) -> str:
    """The statement for a symbol of that label."""
    return re.sub(rf"\({variable}:\w+ ", f"({variable}:{label} ", text)


def plain(cell: Any) -> Any:
    """A cell without what a projection adds, and what servers leave out when it is empty."""
    if isinstance(cell, GraphNode):
        return ("node", cell.labels, _said(cell.properties))
    if isinstance(cell, GraphEdge):
        return ("edge", cell.relation, cell.source, cell.target, _said(cell.properties))
    return sorted(cell) if isinstance(cell, list) else cell


def _said(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in properties.items()
        if key != "recorded_from"
        and value not in (None, "", [], ())
        and (key, value) != ("confidence", 1)
    }


def rows(result: GraphResult, columns: Sequence[str]) -> list[list[Any]]:
    at = [result.columns.index(column) for column in columns]
    return [[plain(row[i]) for i in at] for row in result.rows]


def test_the_page_has_every_template() -> None:
    assert set(RECIPES) == set(CATALOGUE)
    assert all(
        block.text in RECIPES.values() for block in blocks(PAGE) if "MATCH" in block.begins[:6]
    )


def test_the_packages_have_something_of_everything(packages: dict[str, Package]) -> None:
    edges = [edge for package in packages.values() for edge in package.edges]
    assert {edge.relation for edge in edges} >= {
        Relation.CALLS, Relation.IMPORTS, Relation.INHERITS, Relation.OVERRIDES,
    }  # fmt: skip


# Which symbols a template is asked of: by an edge that they have, at its target or source.
ASKED: Mapping[str, tuple[Relation, bool, Sequence[str]]] = {
    "callers": (Relation.CALLS, True, ("caller", "call", "lines")),
    "callees": (Relation.CALLS, False, ("callee", "call", "lines")),
    "impact": (Relation.CALLS, True, ("depth", "caller")),
    "importers": (Relation.IMPORTS, True, ("importer", "imports", "imported")),
    "overrides": (Relation.OVERRIDES, True, ("depth", "method")),
    "subclasses": (Relation.INHERITS, True, ("depth", "subclass")),
    "tests_of": (Relation.VALIDATED_BY, False, ("test", "exercised")),
}


@pytest.mark.parametrize("name", ASKED)
async def test_rows_and_cypher_answer_alike(
    held: CypherStore, packages: dict[str, Package], name: str
) -> None:
    relation, into, columns = ASKED[name]
    more = {"depth": 2} if name == "impact" else {}
    compared = 0
    for package in packages.values():
        ids = package.with_edge(relation, into=into)
        # What holds them too, and what has none.
        ids += package.some([node.id for node in package.nodes if node.label != Label.REPO])
        for symbol in package.some(sorted(set(ids))):
            text = labelled(RECIPES[name], "s", package.label(symbol))
            mine = told(package, name, symbol=symbol, **more)
            theirs = await ask(held, text, symbol=symbol)
            assert rows(mine, columns) == rows(theirs, theirs.columns), symbol
            compared += len(mine.rows)
    assert compared


async def test_outlines_are_alike(held: CypherStore, packages: dict[str, Package]) -> None:
    columns = ("symbol", "parent")
    for package in packages.values():
        files = [node.id for node in package.nodes if node.label == Label.FILE]
        for file in package.some(files):
            mine = told(package, "outline", file=file)
            theirs = await ask(held, RECIPES["outline"], file=file)
            assert rows(mine, columns) == rows(theirs, columns), file


async def test_paths_are_as_short(held: CypherStore, packages: dict[str, Package]) -> None:
    found = 0
    for package in packages.values():
        for target in package.some(package.with_edge(Relation.CALLS, into=True)):
            far = told(package, "impact", symbol=target, depth=4).rows
            ends = [row[1].id for row in far[-2:] if row[1].id != target]
            for source in [*ends, *package.some(package.with_edge(Relation.CALLS, into=False))[:1]]:
                if source == target:
                    continue
                mine = told(package, "path", source=source, target=target)
                text = labelled(RECIPES["path"], "a", package.label(source))
                theirs = await ask(
                    held,
                    labelled(text, "b", package.label(target)),
                    source=source,
                    target=target,
                )
                assert [row[2] for row in mine.rows] == [row[2] for row in theirs.rows], source
                found += len(mine.rows)
                for ids, chain, hops in mine.rows:
                    assert (ids[0], ids[-1], hops) == (source, target, len(ids) - 1)
                    assert [(e.source, e.target) for e in chain.edges] == list(
                        itertools.pairwise(ids)
                    )
    assert found


@pytest.mark.parametrize(
    ("name", "given"),
    [("history", {"thing": MEAN}), ("chain", {"issue": "#12"}), ("causes", {"issue": "issue/12"})],
)
async def test_what_agents_did_is_told_alike(
    held: CypherStore,
    store: Store,
    indexed: Callable[..., Awaitable[None]],
    name: str,
    given: dict[str, Any],
) -> None:
    async def opened() -> CypherStore:
        return held

    await indexed(GOOD, opened=opened)
    for make in CHAIN:
        await store.episodes.append(make())
    await project(store, opened)
    where = Filter(repos=("shop",), collections=tuple(Collection))
    view = await store.search.view(where)
    code = partial(store.relations.code_graph, view, "shop", wait_s=LIMIT_S)
    source = memories.Source(store.memory_links, view, "shop", code)
    mine = await memories.answer(source, name, find(name).check(given), LIMITS)
    thing = {"thing": f"shop:{MEAN}", "issue": "shop:issue/12"}
    asked = {key: thing[key] for key in given}
    theirs = await ask(held, RECIPES[name], **asked)
    assert mine.rows
    assert rows(mine, mine.columns) == rows(theirs, mine.columns)
    await held.apply(delta("shop", remove_repo=True, number=0, fresh=False))
