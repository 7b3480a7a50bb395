"""The two statements of the semantic arm, and the candidates that they find. `query`: the vector, `k`: how many; the
rest is bound by the condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plait.domain.values import Candidate, ItemId
from vector.connection.uuids import uuids
from vector.search.filters import Condition

ID_BYTES = 16


def similarity(embedding: str, dim: int) -> str:
    """The cosine with `query`."""
    return f"1 - ({embedding} <=> %(query)s::halfvec({dim}))"


def exact(cond: Condition, dim: int) -> str:
    """The filtered rows one by one; their number comes with each row, `limit` at most."""
    return (
        f"WITH kept AS MATERIALIZED (SELECT i.id, i.embedding FROM {cond.table} i"
        f" WHERE {cond.where} AND i.embedding IS NOT NULL LIMIT %(limit)s)"
        f" SELECT id, (SELECT count(*) FROM kept), {similarity('embedding', dim)} AS score"
        " FROM kept ORDER BY score DESC, id LIMIT %(k)s"
    )


def by_index(cond: Condition, dim: int, *, wider: bool = False) -> str:
    """One row of all ids and distances: 188 rows with where they stand took the driver 0.12 ms more a search.
    The inner query orders by distance alone: a second sort key loses the HNSW index.

    `wider`: with a list of `ef` candidates for this statement instead of the connection's. It is set by what the
    look-up is joined to, so before the index is opened, and falls back as the statement ends."""
    distance = f"i.embedding::halfvec({dim}) <=> %(query)s::halfvec({dim})"
    given, looked_at = "", ""
    if wider:
        given = (
            " (SELECT set_config('hnsw.ef_search', %(ef)s::text, true) AS ef) c CROSS JOIN LATERAL"
        )
        looked_at = "c.ef IS NOT NULL AND "
    return (
        "SELECT coalesce(string_agg(uuid_send(id), ''::bytea), ''::bytea),"
        " coalesce(string_agg(float8send(distance), ''::bytea), ''::bytea)"
        f" FROM{given} (SELECT i.id, {distance} AS distance FROM {cond.table} i"
        f" WHERE {looked_at}{cond.where} ORDER BY {distance} LIMIT %(more)s) i"
        " WHERE distance IS NOT NULL"
    )


def candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    """Of the rows of `exact`."""
    return [Candidate(ItemId(row[0]), row[-1]) for row in rows]


def best(ids: bytes, distances: bytes, k: int) -> list[Candidate]:
    """The `k` best of ids of 16 bytes and big-endian distances in the same order: best first, ties by id."""
    scores = 1.0 - np.frombuffer(distances, ">f8").astype(np.float64)
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0], -scores))[:k]
    chosen = np.frombuffer(ids, "V16")[order].tobytes()
    return [
        Candidate(ItemId(id_), score)
        for id_, score in zip(uuids(chosen), scores[order].tolist(), strict=True)
    ]
