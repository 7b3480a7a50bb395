"""The semantic arm: cosine neighbours, exact over few rows and by HNSW over many."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.domain.errors import EmbeddingModelMismatch
from plait.domain.gather import all_of
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.ports import View
from vector.connection.arrays import uuid_array
from vector.connection.halfvec import half
from vector.connection.pool import OVER_FETCH, Scoped
from vector.search.filters import condition
from vector.search.nearest_agents import NearestOfAgents
from vector.search.nearest_sql import best, by_index, candidates, exact

# Up to here the filtered rows are compared one by one: recall 1, and faster than HNSW with a filter
# that keeps one row in a hundred.
EXACT_ROWS = 5_000
# With a filter recall needs more than `OVER_FETCH`.
OVER_FETCH_FILTERED = 4


class Nearest:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._of_agents = NearestOfAgents(app)

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        if not view.model or not view.revisions:
            return []
        if vector.shape != (view.dim,):
            raise EmbeddingModelMismatch(view.model, view.dim, "the query's", vector.size)
        query, asked = half(vector), where.collections or tuple(Collection)
        reads: list[Coroutine[Any, Any, list[Candidate]]] = []
        if Collection.FILES in asked and _embedded(view):
            code = replace(where, collections=(Collection.FILES,))
            reads.append(self._code(view, query, code, k))
        theirs = tuple(c for c in asked if c is not Collection.FILES)
        if theirs:
            of_agents = replace(where, collections=theirs)
            reads.append(self._of_agents.nearest(view, query, of_agents, k))
        if len(reads) == 1:
            return await reads[0]
        found = [one for part in await all_of(*reads) for one in part]
        return sorted(found, key=lambda one: (-one.score, one.id.int))[:k]

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        query = (
            f"SELECT i.id, 1 - (i.embedding <=> %(query)s::halfvec({view.dim})) FROM files i"
            " WHERE i.id = ANY(%(ids)s) AND i.embedding IS NOT NULL"
        )
        params = {"query": half(vector), "ids": uuid_array(ids)}
        rows = await self._app.rows(query, params, tenant=view.tenant)
        return {ItemId(id_): cosine for id_, cosine in rows}

    async def missed(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return await self._of_agents.missed(view, half(vector), ids)

    async def _code(self, view: View, query: object, where: Filter, k: int) -> list[Candidate]:
        cond = condition(view, where)
        params = {**cond.params, "query": query, "k": k, "limit": EXACT_ROWS + 1}
        if cond.restrictive or _embedded(view) <= EXACT_ROWS:
            rows = await self._app.rows(exact(cond, view.dim), params, tenant=view.tenant)
            if not rows or rows[0][1] <= EXACT_ROWS:
                return candidates(rows)
        more = OVER_FETCH_FILTERED if cond.restrictive else OVER_FETCH
        params["more"] = math.ceil(more * k)
        # With a filter the plan decides whether the index or each row is looked at, so what is found:
        # the server would change it at a connection's sixth call for one that fits any values.
        prepare = False if cond.restrictive else None
        ((ids, distances),) = await self._app.rows(
            by_index(cond, view.dim), params, tenant=view.tenant, prepare=prepare
        )
        return best(ids, distances, k)


def _embedded(view: View) -> int:
    return sum(r.embedded for r in view.revisions)


def literal(vector: npt.NDArray[np.float32]) -> str:
    """pgvector's text form. Five digits are more than a halfvec keeps."""
    return "[" + ",".join([f"{x:.5g}" for x in vector.tolist()]) + "]"
