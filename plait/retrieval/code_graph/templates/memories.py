"""What each template of the memory layer answers: read from the primary store, as of a view's times.

Links of agents' runs and memories lead to code, which is of the one published revision; a link to code that
is not there is left out, as it is in the graph.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plait.domain.answers.graph import GraphEdge, GraphNode, GraphResult
from plait.domain.errors import UnknownSymbol
from plait.domain.graph import Link, Relation, link_properties
from plait.ports import CodeGraph, MemoryLinkStore, View
from plait.retrieval.code_graph.templates import lookup
from plait.retrieval.code_graph.templates.cells import Cells, Limits, result

# Links of one step. `history` takes as many as it may show; an issue has few.
MAX_LINKS = 10_000

_KINDS = ("episode", "memory", "diff", "issue", "commit")
_LAYER = re.compile(rf"(?:{'|'.join(_KINDS)})/")
_SHA = re.compile(r"(?:commit/)?([0-9a-f]{7,40})")
_AGENTS = ("episode", "diff", "memory")  # what `history` shows

Row = list[Any]
Graph = Callable[[], Awaitable[CodeGraph | None]]


@dataclass(frozen=True, slots=True)
class Source:
    """What one answer reads. `graph`: the code of the view's revision; None where there is none."""

    store: MemoryLinkStore
    view: View
    repo: str
    graph: Graph


async def answer(
    source: Source, name: str, given: Mapping[str, Any], limits: Limits
) -> GraphResult:
    """The template `name` of the memory layer; `given` as `Template.check` returns it.

    Raises: UnknownSymbol, AmbiguousSymbol, ResultTooLarge, StoreUnavailable.
    """
    started = time.perf_counter()
    columns, rows, cut = await _ANSWERS[name](source, given, limits)
    found = result(columns, rows, limits, started)
    return replace(found, truncated=found.truncated or cut)


Answer = tuple[
    tuple[str, ...], list[Row], bool
]  # the columns, the rows, and whether there are more


async def _history(source: Source, given: Mapping[str, Any], limits: Limits) -> Answer:
    thing = await _thing(source, given["thing"])
    most = limits.max_rows + 1
    links = await _links(source, [thing], (), into=True, limit=most, sources=_AGENTS)
    nodes = await _nodes(source, [_source(one) for one in links])
    rows: list[Row] = [
        [nodes[_source(one)], _edge(one), one.relation, one.recorded_from]
        for one in links
        if _source(one) in nodes
    ]
    rows.sort(key=lambda row: (-row[3], row[0].id))
    return ("what", "link", "relation", "recorded_from"), rows, len(links) == most


async def _chain(source: Source, given: Mapping[str, Any], limits: Limits) -> Answer:
    issue = await _thing(source, given["issue"])
    fixes = await _links(source, [issue], (Relation.FIXES,), into=True)
    touches = await _links(source, map(_source, fixes), (Relation.TOUCHES,), into=False)
    shows = await _links(source, map(_target, touches), (Relation.VALIDATED_BY,), into=False)
    steps = (*fixes, *touches, *shows)
    nodes = await _nodes(source, [issue, *map(_source, steps), *map(_target, steps)])
    touched, shown = _by_source(touches, nodes), _by_source(shows, nodes)
    rows: list[Row] = [
        [
            nodes[issue],
            nodes[_source(fix)],
            nodes.get(_target(touch)),
            nodes.get(_target(show)),
            *map(_edge, (fix, touch, show)),
        ]
        for fix in fixes
        if _source(fix) in nodes
        for touch in touched.get(_source(fix), [None])
        for show in shown.get(_target(touch), [None])
    ]
    rows.sort(key=lambda row: [_last(row[at]) for at in (1, 2, 3)])
    columns = ("issue", "fix", "code", "test", "fixes", "touches", "shows")
    return columns, rows, any(len(one) == MAX_LINKS for one in (fixes, touches, shows))


async def _causes(source: Source, given: Mapping[str, Any], limits: Limits) -> Answer:
    issue = await _thing(source, given["issue"])
    causes = await _links(source, [issue], (Relation.CAUSES,), into=True)
    runs = await _links(
        source, map(_source, causes), (Relation.CONTAINS,), into=True, sources=("episode",)
    )
    nodes = await _nodes(source, [*map(_source, causes), *map(_source, runs)])
    by_cause: dict[str, list[GraphNode | None]] = {}
    for one in runs:
        if _source(one) in nodes:
            by_cause.setdefault(_target(one), []).append(nodes[_source(one)])
    rows: list[Row] = [
        [nodes[_source(cause)], _edge(cause), cause.confidence, run]
        for cause in causes
        if _source(cause) in nodes
        for run in by_cause.get(_source(cause), [None])
    ]
    rows.sort(key=lambda row: (-row[2], row[0].id, _last(row[3])))
    columns = ("cause", "causes", "confidence", "run")
    return columns, rows, any(len(one) == MAX_LINKS for one in (causes, runs))


_ANSWERS: Mapping[str, Callable[[Source, Mapping[str, Any], Limits], Awaitable[Answer]]] = {
    "history": _history,
    "chain": _chain,
    "causes": _causes,
}


async def _thing(source: Source, text: str) -> str:
    """The name of what `text` means: `issue/12`, `#12`, a commit's first digits, `episode/…`, or code; with the
    repository's name before it or without. Raises: UnknownSymbol, AmbiguousSymbol."""
    own = text.removeprefix(f"{source.repo}:")
    asked = [own, f"issue/{own.removeprefix('#')}", f"commit/{own}"]
    names = list(await source.store.nodes(source.view, source.repo, asked))
    if not names and (sha := _SHA.fullmatch(own)):
        names = await source.store.commits(source.view, source.repo, sha[1])
    if len(names) > 1:
        raise lookup.ambiguous(text, [f"{source.repo}:{name}" for name in sorted(names)])
    if names:
        return names[0]
    graph = await source.graph()
    if graph is None:
        raise UnknownSymbol(
            f"nothing is called {text!r} in the repository {source.repo!r}; `plait search` finds symbols by "
            "words",
            symbol=text,
        )
    return graph.ids[lookup.node(graph, text)]


async def _links(
    source: Source,
    ends: Iterable[str],
    relations: Sequence[str],
    *,
    into: bool,
    limit: int = MAX_LINKS,
    sources: Sequence[str] = (),
) -> list[Link]:
    names = list(dict.fromkeys(ends))
    if not names:
        return []
    return await source.store.links(
        source.view, source.repo, names, relations, into=into, limit=limit, sources=sources
    )


async def _nodes(source: Source, names: Iterable[str]) -> dict[str, GraphNode]:
    """Those that are there, by name."""
    unique = list(dict.fromkeys(names))
    layer = [name for name in unique if _LAYER.match(name)]
    found = {
        name: _memory_cell(source.repo, one.node, one.properties)
        for name, one in (await source.store.nodes(source.view, source.repo, layer)).items()
    }
    code = [name for name in unique if not _LAYER.match(name)]
    if code and (graph := await source.graph()) is not None:
        cells = Cells(graph)
        found |= {name: cells.node(graph.row[name]) for name in code if name in graph.row}
    return found


def _memory_cell(repo: str, node: Any, properties: Mapping[str, Any]) -> GraphNode:
    own = {field: getattr(node, field) for field in node.__struct_fields__ if field != "label"}
    return GraphNode(node.id, (str(node.label),), {**own, "repo": repo, **properties})


def _edge(link: Link | None) -> GraphEdge | None:
    if link is None:
        return None
    return GraphEdge(link.relation, link.source, link.target, link_properties(link))


def _source(link: Link) -> str:
    return link.source.partition(":")[2]


def _target(link: Link | None) -> str:
    return link.target.partition(":")[2] if link else ""


def _by_source(
    links: Sequence[Link], nodes: Mapping[str, GraphNode]
) -> Mapping[str, Sequence[Link | None]]:
    """Those to what is there."""
    found: dict[str, list[Link | None]] = {}
    for link in links:
        if _target(link) in nodes:
            found.setdefault(_source(link), []).append(link)
    return found


def _last(node: GraphNode | None) -> tuple[bool, str]:
    """A key of order: by id, what is missing behind."""
    return (node is None, node.id if node else "")
