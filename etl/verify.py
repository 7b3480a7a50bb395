"""Do both stores agree? What the truth expects of the graph, compared with all that the graph holds."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from etl.project import Projector
from plait.domain.errors import GraphUpdating, PlaitError
from plait.ports import GraphContents, GraphStore, Outbox

EXAMPLES = 10  # of each kind of difference
FIRST_WAIT_S, LONGEST_WAIT_S = 0.02, 0.5

_KINDS = {"episode": "Episode", "memory": "Memory", "diff": "Diff", "issue": "Issue"}
_KINDS |= {"commit": "Commit", "": "File"}

K = TypeVar("K")
EdgeKey = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Differences:
    """Nodes by their kind and edges by their relation, how many; and the first ones, by id."""

    counts: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Verification:
    """`missing`: expected and not in the graph; `extra`: the other way round; `different`: in both, with
    other properties or labels, or twice. `waiting`: events not yet projected; `dead`: events given up,
    whose content is missing. `checked`: that the stores held still while they were compared."""

    repo: str
    nodes: int
    edges: int
    missing: Differences
    extra: Differences
    different: Differences
    waiting: int
    dead: int
    checked: bool
    took_ms: float

    @property
    def consistent(self) -> bool:
        same = not (self.missing.total or self.extra.total or self.different.total)
        return same and self.checked and not self.waiting


class Verifier:
    """`projector`: brings what waits to the graph before it is compared."""

    def __init__(
        self,
        outbox: Outbox,
        open_graph: Callable[[], Awaitable[GraphStore]],
        projector: Projector | None = None,
    ) -> None:
        self._outbox = outbox
        self._open_graph = open_graph
        self._projector = projector or Projector(outbox, open_graph)

    async def verify(self, repo: str, *, timeout_s: float = 60.0) -> Verification:
        """Compare all of `repo`. Writers may go on meanwhile: a comparison that something came between
        is made again. If the stores are never idle within `timeout_s`, the report states that.

        Raises: RepositoryNotIndexed, StoreUnavailable; GraphUpdating, when the graph could not be read
        within `timeout_s` for all that was being deleted from it.
        """
        started = time.perf_counter()
        graph = await self._open_graph()
        wait_s = FIRST_WAIT_S
        while True:
            await self._catch_up(repo)
            before = await self._state(repo)
            expected = await self._outbox.expected(repo)
            timed_out = time.perf_counter() - started + wait_s >= timeout_s
            try:
                held = await graph.contents(repo)
            except GraphUpdating:
                if timed_out:
                    raise
            else:
                after = await self._state(repo)
                # The events of a change are queued with it: nothing waited and nothing was projected
                # meanwhile, so both were read of one state.
                still = before == after and after[1:] == (False, 0)
                if still or timed_out:
                    dead = len(await self._outbox.dead([repo]))
                    took_ms = (time.perf_counter() - started) * 1e3
                    return compared(repo, expected, held, after[2], dead, still, took_ms)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)

    async def rebuild(self, repo: str, *, timeout_s: float = 3600.0) -> Verification:
        """Throw the graph of `repo` away, project all of it anew, and verify it.

        Raises: as `verify`; GraphUpdating, when it was not projected within `timeout_s`; and what
        projecting raises.
        """
        started = time.perf_counter()
        await self._outbox.reset(repo)
        wait_s = FIRST_WAIT_S
        while await self._outbox.waiting([repo]):
            await self._projector.run_until_idle()
            if time.perf_counter() - started > timeout_s:
                raise GraphUpdating(
                    f"the graph of {repo!r} was not projected within {timeout_s:g} s; it goes on in the "
                    "background: verify it later",
                    repositories=repo,
                    limit_s=timeout_s,
                )
            if await self._outbox.waiting([repo]):  # another process is at it
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        left_s = max(30.0, timeout_s - (time.perf_counter() - started))
        return await self.verify(repo, timeout_s=left_s)

    async def _catch_up(self, repo: str) -> None:
        """Project what waits. What can't be projected now is for the comparison to show."""
        if await self._outbox.waiting([repo]):
            try:
                await self._projector.run_until_idle()
            except PlaitError:
                return

    async def _state(self, repo: str) -> tuple[int, bool, int]:
        """`(epoch, changing, waiting)`."""
        number, changing = await self._outbox.epoch([repo])
        return number, changing, await self._outbox.waiting([repo])


def compared(
    repo: str,
    expected: GraphContents,
    held: GraphContents,
    waiting: int = 0,
    dead: int = 0,
    checked: bool = True,
    took_ms: float = 0.0,
) -> Verification:
    """Every node and edge of both sides, by id and by digest."""

    def kind(id_: str) -> str:
        return _kind(repo, id_)

    nodes = _split(expected.nodes, held.nodes)
    edges = _split(expected.edges, held.edges)
    missing, extra, different = (
        _differences(some, kind, others) for some, others in zip(nodes, edges, strict=True)
    )
    return Verification(
        repo=repo,
        nodes=len(expected.nodes),
        edges=len(expected.edges),
        missing=missing,
        extra=extra,
        different=different,
        waiting=waiting,
        dead=dead,
        checked=checked,
        took_ms=took_ms,
    )


def _split(
    expected: Mapping[K, bytes], held: Mapping[K, bytes]
) -> tuple[list[K], list[K], list[K]]:
    """Keys that are missing, extra and different."""
    missing = [key for key in expected if key not in held]
    extra = [key for key in held if key not in expected]
    different = [key for key, digest in expected.items() if held.get(key, digest) != digest]
    return missing, extra, different


def _differences(nodes: list[str], kind: Callable[[str], str], edges: list[EdgeKey]) -> Differences:
    counts = Counter(map(kind, nodes)) + Counter(relation for relation, *_ in edges)
    shown = [*sorted(nodes)[:EXAMPLES], *map(_edge, sorted(edges)[:EXAMPLES])]
    return Differences(dict(sorted(counts.items())), tuple(shown))


def _kind(repo: str, id_: str) -> str:
    """A node's label by its id; the kinds of code symbols are not distinguished."""
    name = id_.removeprefix(f"{repo}:")
    if not name:
        return "Repo"
    head, slash, _ = name.partition("/")
    return _KINDS.get(head, "Symbol") if slash else "Symbol"


def _edge(key: EdgeKey) -> str:
    relation, source, target, link = key
    return f"({source})-[:{relation}{f' link {link}' if link else ''}]->({target})"
