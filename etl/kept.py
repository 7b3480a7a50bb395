"""What a service keeps of a repository between index runs, so that the next one does only what a change needs.

Kept for one published revision: the stored files, the facts and what was bound from them, each file's counts,
and a parse worker that has its grammars loaded. All of it can be made again from the store.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from etl.facts import FileFacts
from etl.parsing.pool import ParsePool
from etl.plan import IndexPlan
from etl.resolve import Bindings, FilePart
from plait.ports import StoredFile

# What a repository costs besides what its `Bindings` say: rows of files, counts, the plan.
_FILE_BYTES = 2_000


@dataclass(slots=True)
class Counts:
    """What files' parts of the graph hold together, and by path where they are to be followed (`track`)."""

    track: bool = True
    nodes: int = 0
    edges: Counter[str] = field(default_factory=Counter)
    unresolved: Counter[str] = field(default_factory=Counter)
    _parts: dict[str, tuple[int, Mapping[str, int], Mapping[str, int]]] = field(
        default_factory=dict
    )

    def put(self, part: FilePart) -> None:
        """Count a part in place of the one before of its path."""
        self.drop([part.path])
        edges = Counter(edge.relation for edge in part.edges)
        if self.track:
            self._parts[part.path] = (len(part.nodes), edges, part.unresolved)
        self.nodes += len(part.nodes)
        self.edges.update(edges)
        self.unresolved.update(part.unresolved)

    def drop(self, paths: Iterable[str]) -> None:
        for path in paths:
            known = self._parts.pop(path, None)
            if known is not None:
                self.nodes -= known[0]
                self.edges.subtract(known[1])
                self.unresolved.subtract(known[2])


@dataclass(slots=True)
class KeptRepository:
    """One repository as a run left it. `number` is the revision it holds for; 0: none yet, or a run broke off."""

    repo: str
    number: int = 0
    stored: dict[str, StoredFile] = field(default_factory=dict)
    bindings: Bindings | None = None
    counts: Counts = field(default_factory=Counts)
    plan: IndexPlan | None = None
    pool: ParsePool | None = None
    used_at: float = field(default_factory=time.monotonic)

    @property
    def size(self) -> int:
        """About how many bytes this takes."""
        bindings = self.bindings.size if self.bindings is not None else 0
        return bindings + _FILE_BYTES * len(self.stored)

    @property
    def facts(self) -> Mapping[str, FileFacts]:
        return self.bindings.facts if self.bindings is not None else {}

    def forget(self) -> None:
        """Nothing holds any more: the next run reads the store."""
        self.number = 0
        self.stored, self.bindings, self.counts, self.plan = {}, None, Counts(), None

    def close(self) -> None:
        self.forget()
        if self.pool is not None:
            self.pool.close()
            self.pool = None


class KeptRepositories:
    """The repositories that a service keeps, least recently used first, in at most `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, KeptRepository] = OrderedDict()

    def get(self, repo: str) -> KeptRepository | None:
        """What to keep of `repo` (qualified) during a run; None when nothing is."""
        if not self._max_bytes:
            return None
        kept = self._kept.get(repo)
        if kept is None:
            kept = self._kept[repo] = KeptRepository(repo)
        kept.used_at = time.monotonic()
        self._kept.move_to_end(repo)
        return kept

    def trim(self) -> None:
        """Drop the least recently used ones, until what is kept fits; one that does not fit is not kept."""
        while self._kept and sum(kept.size for kept in self._kept.values()) > self._max_bytes:
            self._kept.popitem(last=False)[1].close()

    def drop(self, repo: str) -> None:
        kept = self._kept.pop(repo, None)
        if kept is not None:
            kept.close()

    def drop_idle(self, seconds: float) -> None:
        """Drop what no run used for so long."""
        now = time.monotonic()
        for repo in [r for r, kept in self._kept.items() if now - kept.used_at > seconds]:
            self.drop(repo)

    def close(self) -> None:
        for repo in list(self._kept):
            self.drop(repo)
