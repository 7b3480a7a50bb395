"""Which code is embedded first: what searches come upon, then what much code calls.

What was touched is kept in memory, as ids and of a bounded number of chunks: after a restart it is what is touched
from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from plait.domain.values import ItemId
from plait.retrieval.code_graph.called import most_called
from server.background_jobs.code_graphs import CodeGraphs, Graphs, Views

# Chunks remembered of a repository, the latest, and of how many repositories: 20 MB at most.
MOST, REPOSITORIES = 1_000, 100
# Symbols whose callers are counted into an order.
CALLED = 5_000
# The graph is read for recalls anyway; a large one that another run is reading may take a while.
LONGEST_S = 60.0


class CodeOrder:
    """See `etl.embed.CodeOrder`. Used by one event loop."""

    def __init__(self, search: Views, relations: Graphs) -> None:
        self._graphs = CodeGraphs(search, relations, LONGEST_S)
        self._touched: OrderedDict[str, OrderedDict[ItemId, None]] = OrderedDict()

    def touch(self, repo: str, ids: Sequence[ItemId]) -> None:
        """A search came upon chunks `ids` of `repo` (its qualified name), the best first."""
        known = self._touched.setdefault(repo, OrderedDict())
        self._touched.move_to_end(repo)
        for id_ in reversed(ids):
            known[id_] = None
            known.move_to_end(id_)
        while len(known) > MOST:
            known.popitem(last=False)
        while len(self._touched) > REPOSITORIES:
            self._touched.popitem(last=False)

    def touched(self, repo: str, most: int) -> Sequence[ItemId]:
        latest = reversed(self._touched.get(repo, {}))
        return [id_ for id_, _ in zip(latest, range(most), strict=False)]

    def done(self, repo: str, ids: Sequence[ItemId]) -> None:
        known = self._touched.get(repo, OrderedDict())
        for id_ in ids:
            known.pop(id_, None)
        if not known:
            self._touched.pop(repo, None)

    async def called(self, repo: str) -> Sequence[tuple[str, str]]:
        """Nothing for a repository whose graph is too large to be kept in memory."""
        graph = await self._graphs.of(repo)
        return most_called(graph, CALLED) if graph is not None else []
