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
from vector.connection.uuids import uuids
from vector.search.filters import Condition, condition

# Up to here the filtered rows are compared one by one: recall 1, and faster than HNSW with a filter
# that keeps one row in a hundred.
EXACT_ROWS = 5_000
# Of what agents wrote alone, which few searches read and every one filters: 20,000 of 384 dimensions take 8 ms.
EXACT_AGENT_ROWS = 20_000
# With a filter recall needs more than `OVER_FETCH`.
OVER_FETCH_FILTERED = 4
ID_BYTES = 16


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
        if not cond.restrictive and code > most:
            return await self._of_many(view, where, cond, params)
        rows = await self._app.rows(_exact(cond, view.dim), params, tenant=view.tenant)
        if rows and rows[0][1] > most:
            return await self._of_many(view, where, cond, params)
        return _candidates(rows)

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

    async def _of_many(
        self, view: View, where: Filter, cond: Condition, params: dict[str, Any]
    ) -> list[Candidate]:
        """By HNSW; of agents' items all one by one after all, where a filter keeps few of many."""
        more = OVER_FETCH_FILTERED if cond.restrictive else OVER_FETCH
        params["more"] = math.ceil(more * params["k"])
        # With a filter the plan decides whether the index or each row is looked at, so what is found:
        # the server would change it at a connection's sixth call for one that fits any values.
        prepare = None if _reads_code(where) and not cond.restrictive else False
        ((ids, distances),) = await self._app.rows(
            _by_index(cond, view.dim), params, tenant=view.tenant, prepare=prepare
        )
        if len(ids) < ID_BYTES * params["k"] and not _reads_code(where):
            params["limit"] = None
            rows = await self._app.rows(_exact(cond, view.dim), params, tenant=view.tenant)
            return _candidates(rows)
        return _best(ids, distances, params["k"])


def _candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    return [Candidate(ItemId(row[0]), row[-1]) for row in rows]


def _best(ids: bytes, distances: bytes, k: int) -> list[Candidate]:
    """The `k` best of ids of 16 bytes and big-endian distances in the same order: best first, ties by id."""
    scores = 1.0 - np.frombuffer(distances, ">f8").astype(np.float64)
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0], -scores))[:k]
    chosen = np.frombuffer(ids, "V16")[order].tobytes()
    return [
        Candidate(ItemId(id_), score)
        for id_, score in zip(uuids(chosen), scores[order].tolist(), strict=True)
    ]


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
    """One row of all ids and distances: 188 rows with where they stand took the driver 0.12 ms more a search.
    The inner query orders by distance alone: a second sort key loses the HNSW index."""
    distance = f"i.embedding::halfvec({dim}) <=> %(query)s::halfvec({dim})"
    return (
        "SELECT coalesce(string_agg(uuid_send(id), ''::bytea), ''::bytea),"
        " coalesce(string_agg(float8send(distance), ''::bytea), ''::bytea)"
        f" FROM (SELECT i.id, {distance} AS distance FROM {cond.table} i WHERE {cond.where}"
        f" ORDER BY {distance} LIMIT %(more)s) i WHERE distance IS NOT NULL"
    )
