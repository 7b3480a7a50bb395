"""Neighbouring turns: the memories before and after others in one session, or one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plait.domain.values import Collection, Filter, ItemId
from plait.ports import Around, View
from vector.connection.arrays import uuid_array
from vector.connection.pool import Scoped
from vector.connection.uuids import uuids
from vector.search.filters import condition

# So many versions of entries on either side are looked through for those that match: with a filter that keeps
# few, a session of 60,000 turns was read for each turn, and what is that far away is not next to it.
MAX_FAR = 200
# A memory, one beside it, and how far: 400 rows of these took the driver a millisecond.
_STEP = np.dtype([("seed", "V16"), ("id", "V16"), ("step", ">i4")])
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
    """One row of `_STEP`s: up to `reach` on either side of `ids` that match `where`, which is about `memories i`;
    a step of -1 is right before."""
    beside = "UNION ALL".join(
        _BESIDE.format(thread=thread, where=where, sign=sign, way=way, beyond=beyond, far=MAX_FAR)
        for thread in _THREADS
        for sign, way, beyond in (("-", "DESC", "<"), ("", "ASC", ">"))
    )
    return (
        "SELECT coalesce(string_agg(uuid_send(s.id) || uuid_send(n.id) || int4send(n.step::int), ''::bytea), ''::bytea)"
        " FROM (SELECT i.id, i.repo_id, i.session_key, i.episode_id,"
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
    values = {**params, "ids": uuid_array(ids), "reach": reach}
    ((packed,),) = await app.rows(query(where), values, tenant=tenant)
    steps = np.frombuffer(packed, _STEP)
    seeds, beside = steps["seed"].tolist(), steps["id"].tolist()
    # One object an id, though sessions overlap: one that is the same is found without comparing it.
    known = {id_.bytes: id_ for id_ in ids}
    new = [raw for raw in dict.fromkeys(beside) if raw not in known]
    known |= zip(new, map(ItemId, uuids(b"".join(new))), strict=True)
    found: dict[ItemId, dict[ItemId, int]] = {}
    for seed, id_, step in zip(seeds, beside, steps["step"].tolist(), strict=True):
        found.setdefault(known[seed], {})[known[id_]] = step
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
