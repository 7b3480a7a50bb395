"""The semantic arm: cosine neighbours, exact over few rows and by HNSW over many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.domain.errors import EmbeddingModelMismatch
from plait.domain.values import Candidate, Collection, Filter, ItemId
from plait.ports import View
from vector.connection.arrays import uuid_array
from vector.connection.halfvec import half
from vector.connection.pool import OVER_FETCH, Scoped
from vector.search.filters import Condition, condition
from vector.search.store import PLACE_COLUMNS, remember

# Up to here the filtered rows are compared one by one: recall 1, and faster than HNSW with a filter
# that keeps one row in a hundred.
EXACT_ROWS = 5_000
# Of what agents wrote alone, which few searches read and every one filters: 20,000 of 384 dimensions take 8 ms.
EXACT_AGENT_ROWS = 20_000
# With a filter recall needs more than `OVER_FETCH`.
OVER_FETCH_FILTERED = 4
CODE = Collection.FILES.value  # the partition's name


class Nearest:
    def __init__(self, app: Scoped) -> None:
        self._app = app

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        if not view.model or not view.revisions:
            return []
        if vector.shape != (view.dim,):
            raise EmbeddingModelMismatch(view.model, view.dim, "the query's", vector.size)
        code = _code_rows(view, where)
        if where.collections == (Collection.FILES,) and not code:
            return []  # else every row without a vector would be read to say so
        cond = condition(view, where)
        most = EXACT_ROWS if _reads_code(where) else EXACT_AGENT_ROWS
        params = {**cond.params, "query": half(vector), "k": k, "limit": most + 1}
        plain_and_many = not cond.restrictive and code > most
        rows: list[tuple[Any, ...]] = []
        if not plain_and_many:
            rows = await self._app.rows(_exact(cond, view.dim), params, tenant=view.tenant)
        if plain_and_many or (rows and rows[0][1] > most):
            rows = await self._of_many(view, where, cond, params)
        return [Candidate(ItemId(row[0]), row[-1]) for row in rows]

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        query = (
            f"SELECT i.id, 1 - (i.embedding <=> %(query)s::halfvec({view.dim})) FROM {CODE} i"
            " WHERE i.id = ANY(%(ids)s) AND i.embedding IS NOT NULL"
        )
        params = {"query": half(vector), "ids": uuid_array(ids)}
        rows = await self._app.rows(query, params, tenant=view.tenant)
        return {ItemId(id_): cosine for id_, cosine in rows}

    async def _of_many(
        self, view: View, where: Filter, cond: Condition, params: dict[str, Any]
    ) -> list[tuple[Any, ...]]:
        """By HNSW; of agents' items all one by one after all, where a filter keeps few of many."""
        more = OVER_FETCH_FILTERED if cond.restrictive else OVER_FETCH
        params["more"] = math.ceil(more * params["k"])
        # With a filter the plan decides whether the index or each row is looked at, so what is found:
        # the server would change it at a connection's sixth call for one that fits any values.
        prepare = None if _reads_code(where) and not cond.restrictive else False
        rows = await self._app.rows(
            _by_index(cond, view.dim), params, tenant=view.tenant, prepare=prepare
        )
        if cond.table == CODE:
            # The index reads the rows anyway: where they stand need not be asked once more.
            remember(view, (row[:-1] for row in rows))
        if len(rows) < params["k"] and not _reads_code(where):
            params["limit"] = None
            rows = await self._app.rows(_exact(cond, view.dim), params, tenant=view.tenant)
        return rows


def literal(vector: npt.NDArray[np.float32]) -> str:
    """pgvector's text form. Five digits are more than a halfvec keeps."""
    return "[" + ",".join([f"{x:.5g}" for x in vector.tolist()]) + "]"


def _reads_code(where: Filter) -> bool:
    return not where.collections or Collection.FILES in where.collections


def _code_rows(view: View, where: Filter) -> int:
    return sum(r.embedded for r in view.revisions) if "files" in where.collections else 0


def _exact(cond: Condition, dim: int) -> str:
    """The filtered rows one by one; their number comes with each row, `limit` at most."""
    return (
        f"WITH kept AS MATERIALIZED (SELECT i.id, i.embedding FROM {cond.table} i"
        f" WHERE {cond.where} AND i.embedding IS NOT NULL LIMIT %(limit)s)"
        f" SELECT id, (SELECT count(*) FROM kept), 1 - (embedding <=> %(query)s::halfvec({dim})) AS score"
        " FROM kept ORDER BY score DESC, id LIMIT %(k)s"
    )


def _by_index(cond: Condition, dim: int) -> str:
    # The inner query orders by distance alone: a second sort key loses the HNSW index.
    distance = f"i.embedding::halfvec({dim}) <=> %(query)s::halfvec({dim})"
    columns = PLACE_COLUMNS if cond.table == CODE else "i.id"
    return (
        f"SELECT {columns}, 1 - distance AS score FROM (SELECT {columns}, {distance} AS distance"
        f" FROM {cond.table} i WHERE {cond.where} ORDER BY {distance} LIMIT %(more)s) i"
        " WHERE distance IS NOT NULL ORDER BY score DESC, id LIMIT %(k)s"
    )
