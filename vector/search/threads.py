"""Neighbouring turns: the memories before and after others in one session, or one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from plait.domain.values import Collection, Filter, ItemId
from plait.ports import Around, View
from vector.connection.pool import Scoped
from vector.search.filters import condition

# So many versions of entries on either side are looked through for those that match: with a filter that keeps
# few, a session of 60,000 turns was read for each turn, and what is that far away is not next to it.
MAX_FAR = 200
# Entries are in the order of their ids, which grow as they are stored: of a chat that is imported the times
# may be missing, or all the same. An entry keeps its place when it is corrected.
_BESIDE = """
(SELECT i.id, {sign} row_number() OVER (ORDER BY i.entry_id {way}) AS step
   FROM (SELECT i.* FROM memories i
          WHERE {thread} AND i.repo_id = s.repo_id AND i.entry_id {beyond} s.entry_id
          ORDER BY i.entry_id {way} LIMIT {far}) i
  WHERE {where}
  ORDER BY i.entry_id {way} LIMIT %(reach)s)
"""
_THREADS = (
    "s.session_key <> '' AND i.session_key <> '' AND i.session_key = s.session_key",
    # Without a session a run is one; by its index, which the other collections share.
    "s.session_key = '' AND i.episode_id = s.episode_id",
)


def query(where: str) -> str:
    """Rows `(seed, neighbour, step)`: up to `reach` on either side of `ids` that match `where`, which is
    about `memories i`; a step of -1 is right before."""
    beside = "UNION ALL".join(
        _BESIDE.format(thread=thread, where=where, sign=sign, way=way, beyond=beyond, far=MAX_FAR)
        for thread in _THREADS
        for sign, way, beyond in (("-", "DESC", "<"), ("", "ASC", ">"))
    )
    return (
        "SELECT s.id, n.id, n.step::int FROM (SELECT i.id, i.repo_id, i.session_key, i.episode_id,"
        " i.entry_id FROM memories i WHERE i.id = ANY(%(ids)s)"
        " AND (i.session_key <> '' OR i.episode_id IS NOT NULL)) s"
        f" CROSS JOIN LATERAL ({beside}) n"
    )


async def around(
    app: Scoped,
    ids: Sequence[ItemId],
    reach: int,
    where: str,
    params: Mapping[str, Any],
    tenant: str,
) -> Around:
    """As `SearchStore.around`, of what matches `where`."""
    found: dict[ItemId, dict[ItemId, int]] = {}
    values = {**params, "ids": list(ids), "reach": reach}
    for seed, id_, step in await app.rows(query(where), values, tenant=tenant):
        found.setdefault(ItemId(seed), {})[ItemId(id_)] = step
    return found


class Threads:
    """The part of `SearchStore` that reads neighbouring turns."""

    def __init__(self, app: Scoped) -> None:
        self._app = app

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        if where.collections and Collection.MEMORIES not in where.collections:
            return {}
        cond = condition(view, replace(where, collections=(Collection.MEMORIES,)))
        return await around(self._app, ids, reach, cond.where, cond.params, view.tenant)
