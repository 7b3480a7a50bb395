"""Places of code, kept by revision: a published revision's chunks stand where they stand.

Which chunks a revision holds, and where, never changes after it was published, so what one search read of a revision
serves every later one of it. A view says which revisions its caller may read; only their places are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from vector.search.snapshots import PinnedView

# Kept of all revisions together, some 300 bytes each.
MOST = 50_000


class Places:
    """Of code by revision, of agents' items by view: those may be superseded or forgotten at any time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept = 0
        self._by_revision: dict[tuple[int, int], dict[int, Place]] = {}

    def known(self, view: PinnedView, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        """Those of `ids` that were read before, in their order."""
        tables = [view.seen, *(self._table(r.repo_id, r.number) for r in view.revisions)]
        tables = [table for table in tables if table]
        found: dict[ItemId, Place] = {}
        for id_ in ids:
            number = id_.int  # which hashes ten times as fast
            for table in tables:
                if (place := table.get(number)) is not None:
                    found[id_] = place
                    break
        return found

    def keep(self, view: PinnedView, read: Mapping[ItemId, tuple[int, Place]]) -> None:
        """`read` as of `view`: by id its repository's number and its place. Where there are too many already, none of
        those is kept: what is asked for again is read again."""
        if self._kept + len(read) > self._most:
            self._by_revision.clear()
            self._kept = 0
        numbers = {r.repo_id: r.number for r in view.revisions}
        for id_, (repo_id, place) in read.items():
            if place.collection is Collection.FILES:
                self._table(repo_id, numbers[repo_id])[id_.int] = place
                self._kept += 1
            else:
                view.seen[id_.int] = place

    def _table(self, repo_id: int, number: int) -> dict[int, Place]:
        return self._by_revision.setdefault((repo_id, number), {})
