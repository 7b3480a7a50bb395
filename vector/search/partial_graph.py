"""The part of a code graph that one question needs, for a repository whose whole graph is too large to be kept.

A question is put to what has been read so far, which notes what it asked for and did not find; that is read, and the
question put again, until it asks for nothing new. Then its answer is the whole graph's: every part that holds a node or
an edge it looked at was there. Each reading looks through the rows of all files: seconds where arrays take none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from plait.domain.errors import CodeGraphTooLarge
from plait.domain.graph import Label
from plait.domain.values import Revision
from plait.ports import CodeGraph
from vector.connection.arrays import bytea_array
from vector.index.visible import held
from vector.search import codegraph
from vector.search.codegraph import Names, Part
from vector.search.relations_cache import PAGE, REST_S, SLICE_S, Read

# Edges of the parts that one question may have read: some 250 MB.
MOST_EDGES = 1_000_000
# The most texts that PostgreSQL looks for; for more all rows are read, since each costs it as long.
FEW = 6

_AT = "g.repo_id = %(repo)s AND " + held("g", "%(number)s")
# Paths alone; the rows that may fit are looked through here.
_LOOK = f"""
SELECT g.path, CASE WHEN %(nodes)s THEN g.nodes END, CASE WHEN %(edges)s THEN g.edges END FROM file_graph g
 WHERE {_AT} AND g.path > %(after)s AND {{holds}} ORDER BY g.path LIMIT %(page)s
"""
_HOLDS = (
    "(EXISTS (SELECT FROM unnest(%(in_nodes)s) AS n (text) WHERE position(n.text IN g.nodes) > 0)"
    " OR EXISTS (SELECT FROM unnest(%(in_edges)s) AS n (text) WHERE position(n.text IN g.edges) > 0))"
)
_OF = f"SELECT g.path, g.nodes, g.edges FROM file_graph g WHERE {_AT} AND g.path = ANY(%(paths)s)"
_COLLECTED = "SELECT collected FROM repository WHERE id = %(repo)s"


class _Node(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of a stored `Node`."""

    id: str
    label: str
    name: str
    qualified_name: str


class _Edge(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of a stored `Edge`."""

    relation: str
    source: str
    target: str


_nodes = msgspec.msgpack.Decoder(list[_Node])
_edges = msgspec.msgpack.Decoder(list[_Edge])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: nodes by id, nodes by name (of a module: the last part of its qualified name), and the
    nodes, by id, whose edges are wanted. Ids are without `repo:`."""

    ids: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.ids or self.names or self.ends)

    def without(self, other: Wanted) -> Wanted:
        return Wanted(self.ids - other.ids, self.names - other.names, self.ends - other.ends)

    def add(self, other: Wanted) -> None:
        self.ids.update(other.ids)
        self.names.update(other.names)
        self.ends.update(other.ends)

    def fits(self, repo: str, nodes: bytes | None, edges: bytes | None) -> bool:
        """Whether a file's blobs hold any of it; None: not looked at."""
        cut = len(repo) + 1
        if nodes is not None and any(
            node.id[cut:] in self.ids or self._calls(node) for node in _nodes.decode(nodes)
        ):
            return True
        return edges is not None and any(
            edge.source[cut:] in self.ends or edge.target[cut:] in self.ends
            for edge in _edges.decode(edges)
        )

    def _calls(self, node: _Node) -> bool:
        if node.name in self.names:
            return True
        if node.label != Label.MODULE:
            return False
        return (node.qualified_name or node.id).rpartition(".")[2] in self.names


class _Noting(Mapping[str, int]):
    """A table that notes what it was asked for, found or not."""

    def __init__(self, table: Mapping[str, int], asked: set[str]) -> None:
        self._table = table
        self._asked = asked

    def __getitem__(self, key: str) -> int:
        self._asked.add(key)
        return self._table[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class PartialGraph:
    """Of one revision and one question. `read` runs a statement for the tenant."""

    def __init__(self, revision: Revision, read: Read, most_edges: int = MOST_EDGES) -> None:
        self._revision = revision
        self._read = read
        self._most_edges = most_edges
        self._asked, self._known = Wanted(), Wanted()
        self._parts: dict[str, Part] = {}
        self._names = Names()
        self._graph = self._built()

    @property
    def graph(self) -> CodeGraph:
        """What has been read so far; it notes what it is asked for."""
        return self._graph

    async def complete(self) -> Literal["whole", "more", "gone"]:
        """`whole`: nothing was asked of `graph` that it lacks, so what it answered is the whole graph's answer.
        `more`: what it lacked has been read, ask again. `gone`: the revision was collected.

        Raises: CodeGraphTooLarge, for a question that reaches more than `most_edges`; StoreUnavailable.
        """
        wanted = self._asked.without(self._known)
        if not wanted:
            return "whole"
        while wanted:
            self._known.add(wanted)
            await self._take(wanted)
            # An edge counts where both its ends are there, each by the first file that has it.
            ends = await asyncio.to_thread(self._far_ends, wanted.ends)
            wanted = Wanted(ids=ends).without(self._known)
        ((collected,),) = await self._read(_COLLECTED, self._given)
        if self._revision.number < collected:
            return "gone"
        self._graph = await asyncio.to_thread(self._built)
        return "more"

    @property
    def _given(self) -> dict[str, Any]:
        return {"repo": self._revision.repo_id, "number": self._revision.number}

    def _built(self) -> CodeGraph:
        ordered = [self._parts[path] for path in sorted(self._parts)]
        graph = codegraph.build(self._revision.repo, self._revision.number, ordered, self._names)
        asked, ids = self._asked, graph.ids

        def asks(rows: npt.NDArray[np.int32]) -> None:
            asked.ends.update(ids[row] for row in rows.tolist())

        row, word = _Noting(graph.row, asked.ids), _Noting(graph.word, asked.names)
        return replace(graph, row=row, word=word, asks=asks)

    async def _take(self, wanted: Wanted) -> None:
        """Read the parts that hold any of `wanted`."""
        repo, after = self._revision.repo, ""
        query, given = _looking(repo, wanted)
        while True:
            rows = await self._read(query, {**self._given, **given, "after": after, "page": PAGE})
            if not rows:
                return
            after = rows[-1][0]
            rows = [row for row in rows if row[0] not in self._parts]
            paths = await asyncio.to_thread(_fitting, repo, rows, wanted)
            found = await self._read(_OF, {**self._given, "paths": paths}) if paths else []
            await asyncio.to_thread(self._add, found)
            if sum(len(part.source) for part in self._parts.values()) > self._most_edges:
                raise CodeGraphTooLarge(
                    f"the question reaches more than {self._most_edges:,} edges of {repo!r}, whose code graph is "
                    "larger than `recall.max_graph_edges` and so is read from its rows; ask for a smaller depth or "
                    "by a longer name, raise the setting (a million edges take some 250 MB), or ask the graph "
                    "server: docs/cypher-recipes.md has each template in Cypher",
                    repository=repo,
                    max_edges=self._most_edges,
                )

    def _add(self, found: Sequence[tuple[Any, ...]]) -> None:
        """In a worker thread, with pauses for the event loop."""
        since = time.perf_counter()
        for path, nodes, edges in found:
            self._parts[path] = codegraph.part(self._revision.repo, path, nodes, edges, self._names)
            if time.perf_counter() - since > SLICE_S:
                time.sleep(REST_S)
                since = time.perf_counter()

    def _far_ends(self, ends: set[str]) -> set[str]:
        """The nodes at the other ends of the edges of `ends`."""
        if not ends:
            return set()
        numbers = self._names.numbers
        near = np.zeros(len(numbers), bool)
        near[[numbers[id_] for id_ in ends if id_ in numbers]] = True
        far = np.zeros(len(numbers), bool)
        for part in self._parts.values():
            far[part.target[near[part.source]]] = True
            far[part.source[near[part.target]]] = True
        ids = list(numbers)
        return {ids[number] for number in np.flatnonzero(far).tolist()}


def _looking(repo: str, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """The statement that finds the rows which may hold `wanted`, and its parameters."""
    in_nodes = [*(f"{repo}:{id_}" for id_ in wanted.ids), *wanted.names]
    in_edges = [f"{repo}:{id_}" for id_ in wanted.ends]
    given: dict[str, Any] = {"nodes": bool(in_nodes), "edges": bool(in_edges)}
    if len(in_nodes) + len(in_edges) > FEW:
        return _LOOK.format(holds="true"), given
    for name, texts in (("in_nodes", in_nodes), ("in_edges", in_edges)):
        given[name] = bytea_array([text.encode() for text in texts])
    return _LOOK.format(holds=_HOLDS), given


def _fitting(repo: str, rows: Sequence[tuple[Any, ...]], wanted: Wanted) -> list[str]:
    """The paths of `rows` that hold any of `wanted`. Runs in a worker thread, with pauses for the event loop."""
    paths, since = [], time.perf_counter()
    for path, nodes, edges in rows:
        if wanted.fits(repo, nodes, edges):
            paths.append(path)
        if time.perf_counter() - since > SLICE_S:
            time.sleep(REST_S)
            since = time.perf_counter()
    return paths
