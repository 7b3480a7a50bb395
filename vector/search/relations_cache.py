"""Code graphs cached in memory: one task reads a revision; the least recently used are dropped."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.values import Revision
from plait.ports import CodeGraph
from vector.index.visible import held
from vector.search import codegraph
from vector.search.codegraph import Names, Part

logger = logging.getLogger(__name__)

Key = tuple[int, int]  # repo_id, revision
Read = Callable[[str, dict[str, Any]], Awaitable[list[tuple[Any, ...]]]]

# Files a statement: of Django's, 200 have 1.5 MB of blobs.
PAGE = 200
# Decoding holds the interpreter's lock; after so long the thread sleeps, so that requests are answered.
SLICE_S, REST_S = 0.002, 0.0005
# Names of removed nodes stay in `Names`: a graph is read anew once they outnumber the living ones.
MOST_GONE = 2.0
# Cached revisions of one repository: the published one, and the one before for readers that still use it.
MAX_REVISIONS = 2

_AT = "repo_id = %(repo)s AND " + held("file_graph", "%(number)s")
PARTS = f"""
SELECT path, nodes, edges FROM file_graph
 WHERE {_AT} AND path > %(after)s ORDER BY path LIMIT %(page)s
"""
PARTS_OF = f"SELECT path, nodes, edges FROM file_graph WHERE {_AT} AND path = ANY(%(paths)s)"
CHANGED = """
SELECT DISTINCT path FROM file_graph
 WHERE repo_id = %(repo)s AND ((rev_from > %(low)s AND rev_from <= %(high)s)
                            OR (rev_to > %(low)s AND rev_to <= %(high)s))
 ORDER BY path
"""
LIVING = f"SELECT path FROM file_graph WHERE {_AT}"
# What was retired up to `collected` may be gone: a revision before it can't be read whole.
COLLECTED = "SELECT collected FROM repository WHERE id = %(repo)s"


class TooLarge(Exception):
    """The repository has more edges than the cache may hold."""


@dataclass(frozen=True, slots=True)
class CachedGraph:
    """`parts` by path, from which the next revision's graph is made."""

    graph: CodeGraph
    parts: dict[str, Part]
    names: Names

    @property
    def edges(self) -> int:
        return len(self.graph.out_other)


class GraphCache:
    """Graphs of at most `max_edges` edges together. Used by one event loop."""

    def __init__(self, max_edges: int) -> None:
        self._max_edges = max_edges
        self._cached: OrderedDict[Key, CachedGraph] = OrderedDict()
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._too_large: dict[int, int] = {}  # repo_id → the last revision that was
        # Revisions of one repository share their `Names`, which one thread at a time may add to.
        self._one_by_one: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    def get(self, revision: Revision) -> CodeGraph | None:
        held = self._cached.get((revision.repo_id, revision.number))
        if held is None:
            return None
        self._cached.move_to_end((revision.repo_id, revision.number))
        return held.graph

    def state(self, revision: Revision) -> str:
        """As `RelationStore.graph_state`."""
        if not revision.number:
            return "none"
        if (revision.repo_id, revision.number) in self._cached:
            return "ready"
        return "too_large" if self._is_too_large(revision) else "loading"

    async def load(self, revision: Revision, read: Read, wait_s: float) -> CodeGraph | None:
        """The graph; starts reading it if no task does. None if that takes longer than `wait_s`."""
        key = (revision.repo_id, revision.number)
        if (found := self.get(revision)) is not None or not revision.number:
            return found
        if self._is_too_large(revision):
            return None
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(self._fill(revision, read), name=f"graph-{key}")
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        if wait_s > 0.0:
            await asyncio.wait([task], timeout=wait_s)
        return self.get(revision)

    async def close(self) -> None:
        """Cancel the reads and clear the cache."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._cached.clear()

    def _is_too_large(self, revision: Revision) -> bool:
        return self._too_large.get(revision.repo_id) == revision.number

    async def _fill(self, revision: Revision, read: Read) -> None:
        started = time.perf_counter()
        try:
            async with self._one_by_one[revision.repo_id]:
                held = await self._read(revision, read)
        except TooLarge:
            self._too_large[revision.repo_id] = revision.number
            logger.warning(
                "code graph too large to keep",
                extra={"repo": revision.repo, "max_edges": self._max_edges},
            )
            return
        except Exception as exc:
            # There may be no waiter any more; the next caller starts anew.
            logger.warning(
                "code graph not read", extra={"repo": revision.repo, "error": str(exc)[:300]}
            )
            return
        if held is not None:
            self._put((revision.repo_id, revision.number), held)
            took_ms = (time.perf_counter() - started) * 1e3
            details = {"repo": revision.repo, "edges": held.edges, "took_ms": round(took_ms)}
            logger.info("code graph read", extra=details)

    async def _read(self, revision: Revision, read: Read) -> CachedGraph | None:
        """None: that revision was collected meanwhile. Raises: TooLarge, StoreUnavailable."""
        given: dict[str, Any] = {"repo": revision.repo_id, "number": revision.number}
        base = self._base(revision)
        parts: dict[str, Part] = {}
        names = Names()
        if base is not None:
            number, held = base
            parts, names = dict(held.parts), held.names
            span = {"low": min(number, revision.number), "high": max(number, revision.number)}
            paths = [path for (path,) in await read(CHANGED, {**given, **span})]
            for path in paths:
                parts.pop(path, None)
            for at in range(0, len(paths), PAGE):
                rows = await read(PARTS_OF, {**given, "paths": paths[at : at + PAGE]})
                await self._add(revision.repo, rows, names, parts)
        else:
            rows, after = [], ""
            while rows or not after:
                rows = await read(PARTS, {**given, "after": after, "page": PAGE})
                await self._add(revision.repo, rows, names, parts)
                after = rows[-1][0] if rows else "\U0010ffff"
        ((collected,),) = await read(COLLECTED, given)
        if base is not None and base[0] < collected:
            # A file removed since the base may have left no row to tell so.
            living = {path for (path,) in await read(LIVING, given)}
            parts = {path: part for path, part in parts.items() if path in living}
            ((collected,),) = await read(COLLECTED, given)
        if revision.number < collected:
            return None
        ordered = [parts[path] for path in sorted(parts)]
        graph = await asyncio.to_thread(
            codegraph.build, revision.repo, revision.number, ordered, names
        )
        return CachedGraph(graph, parts, names)

    async def _add(
        self, repo: str, rows: Sequence[tuple[Any, ...]], names: Names, parts: dict[str, Part]
    ) -> None:
        for part in await asyncio.to_thread(_decoded, repo, rows, names):
            parts[part.path] = part
        if sum(len(part.source) for part in parts.values()) > self._max_edges:
            raise TooLarge

    def _base(self, revision: Revision) -> tuple[int, CachedGraph] | None:
        """The nearest cached revision of the same repository."""
        near = [
            (abs(number - revision.number), number, held)
            for (repo_id, number), held in self._cached.items()
            if repo_id == revision.repo_id
            and len(held.names) <= MOST_GONE * max(1, len(held.graph.ids))
        ]
        if not near:
            return None
        _, number, held = min(near, key=lambda one: one[:2])
        return number, held

    def _put(self, key: Key, held: CachedGraph) -> None:
        self._cached[key] = held
        same = [k for k in self._cached if k[0] == key[0]]
        for old in same[:-MAX_REVISIONS]:
            del self._cached[old]
        while (
            len(self._cached) > 1 and sum(h.edges for h in self._cached.values()) > self._max_edges
        ):
            self._cached.popitem(last=False)


def _decoded(repo: str, rows: Sequence[tuple[Any, ...]], names: Names) -> list[Part]:
    """Runs in a worker thread, with pauses for the event loop."""
    parts, since = [], time.perf_counter()
    for path, nodes, edges in rows:
        parts.append(codegraph.part(repo, path, nodes, edges, names))
        if time.perf_counter() - since > SLICE_S:
            time.sleep(REST_S)
            since = time.perf_counter()
    return parts
