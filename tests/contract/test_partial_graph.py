"""A repository whose code graph is too large to be kept is told the same by its rows: each template over real packages,
and the runs of an agent."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from etl.pipeline import IndexRequest, index_repository
from plait.domain.answers.graph import GraphResult
from plait.domain.errors import CodeGraphTooLarge, PlaitError
from plait.domain.values import Filter
from plait.ports import CodeGraph, View
from plait.retrieval.code_graph.templates import answers, memories
from plait.retrieval.code_graph.templates.catalogue import find
from plait.retrieval.code_graph.templates.cells import Limits
from plait.settings import Settings
from tests.contract.test_episode_links import CHAIN, GOOD, MEAN, indexed, root
from tests.processes import LIMIT_S
from vector.search import partial_graph
from vector.search.partial_graph import PartialGraph
from vector.search.relations import revision_of
from vector.store import Store

__all__ = ["indexed", "root"]  # fixtures

LIMITS = Limits(5_000, 1 << 26)
EACH = 12  # symbols
TEMPLATES = ("callers", "callees", "impact", "importers", "overrides", "subclasses", "tests_of")

Put = Callable[[CodeGraph], Awaitable[GraphResult]]


async def by_parts(graph: PartialGraph, put: Put) -> GraphResult | str:
    """What the question says of what it needs; the reason of an error."""
    for _ in range(60):
        said = await outcome(graph.graph, put)
        if (state := await graph.complete()) == "whole":
            return said
        assert state == "more"
    raise AssertionError("a question asks for ever more")


async def outcome(graph: CodeGraph, put: Put) -> GraphResult | str:
    try:
        return await put(graph)
    except PlaitError as exc:
        return exc.reason


def told(result: GraphResult | str) -> Any:
    if isinstance(result, str):
        return result
    return result.columns, result.rows, result.nodes, result.edges, result.truncated


def some(graph: CodeGraph) -> list[str]:
    """Ids, the ends of names, names that stand for many, and what is called nothing."""
    chance = random.Random(len(graph.ids))
    ids = chance.sample(list(graph.ids), min(EACH, len(graph.ids)))
    ends = [id_.rpartition(".")[2].partition("@")[0] for id_ in ids]
    return [*ids, *ends, *(f"{graph.repo}:{id_}" for id_ in ids[:2]), "no.such.name", "zzzz"]


async def of_package(store: Store, settings: Settings, package: str) -> tuple[View, CodeGraph]:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    request = IndexRequest(Path(spec.origin).parent, package, embed=False)
    await index_repository(request, settings, store, None, None)
    view = await store.search.view(Filter(repos=(package,)))
    graph = await store.relations.code_graph(view, package, wait_s=LIMIT_S)
    assert graph is not None
    return view, graph


def questions(graph: CodeGraph) -> Sequence[tuple[str, dict[str, Any]]]:
    names = some(graph)
    files = [path for path in dict.fromkeys(graph.paths) if path][:EACH]
    asked: list[tuple[str, dict[str, Any]]] = [
        (name, {"symbol": text}) for name in TEMPLATES for text in names
    ]
    asked += [("outline", {"file": path}) for path in [*files, "no/such/file.py"]]
    asked += [
        ("path", {"source": names[at], "target": names[-at - 4]}) for at in range(len(names) // 2)
    ]
    return asked


@pytest.mark.parametrize("package", ["httpx", "h11"])
@pytest.mark.parametrize("few", [partial_graph.FEW, 0])
async def test_rows_say_what_the_whole_graph_says(
    store: Store,
    truth_settings: Settings,
    package: str,
    few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view, graph = await of_package(store, truth_settings, package)
    monkeypatch.setattr(partial_graph, "FEW", few)
    answered = 0
    for name, given in questions(graph):

        async def put(
            graph: CodeGraph, name: str = name, given: dict[str, Any] = given
        ) -> GraphResult:
            return answers.answer(graph, name, find(name).check(given), LIMITS)

        of_rows = await by_parts(store.relations.partial_graph(view, package), put)
        whole = await outcome(graph, put)
        assert told(of_rows) == told(whole), (name, given)
        answered += not isinstance(whole, str) and bool(whole.rows)
    assert answered > EACH


@pytest.mark.parametrize(
    ("name", "given"),
    [("history", {"thing": MEAN}), ("chain", {"issue": "#12"}), ("causes", {"issue": "issue/12"})],
)
async def test_what_agents_did_is_told_of_rows_too(
    store: Store, indexed: Callable[..., Awaitable[None]], name: str, given: dict[str, Any]
) -> None:
    await indexed(GOOD)
    for make in CHAIN:
        await store.episodes.append(make())
    await store.outbox.settle()
    view = await store.search.view(Filter(repos=("shop",), collections=()))
    graph = await store.relations.code_graph(view, "shop", wait_s=LIMIT_S)
    assert graph is not None

    async def put(graph: CodeGraph) -> GraphResult:
        async def held() -> CodeGraph:
            return graph

        source = memories.Source(store.memory_links, view, "shop", held)
        return await memories.answer(source, name, find(name).check(given), LIMITS)

    of_rows = await by_parts(store.relations.partial_graph(view, "shop"), put)
    whole = await outcome(graph, put)
    assert told(of_rows) == told(whole)
    assert not isinstance(whole, str)
    assert whole.rows


async def test_a_question_that_reaches_too_much_is_refused(
    store: Store, truth_settings: Settings
) -> None:
    view, graph = await of_package(store, truth_settings, "h11")
    revision = revision_of(view, "h11")
    assert revision is not None
    reading = PartialGraph(revision, store.relations._reader(view), most_edges=50)
    put = partial(ask_outline, text=max(graph.paths, key=list(graph.paths).count))
    with pytest.raises(CodeGraphTooLarge, match="more than 50 edges"):
        await by_parts(reading, put)


async def ask_outline(graph: CodeGraph, text: str) -> GraphResult:
    return answers.answer(graph, "outline", find("outline").check({"file": text}), LIMITS)
