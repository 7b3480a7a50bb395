"""The two statements of the semantic arm. `query`: the vector, `k`: how many; the rest is bound by the condition."""

from __future__ import annotations

from vector.search.filters import Condition


def exact(cond: Condition, dim: int) -> str:
    """The filtered rows one by one; their number comes with each row, `limit` at most."""
    return (
        f"WITH kept AS MATERIALIZED (SELECT i.id, i.embedding FROM {cond.table} i"
        f" WHERE {cond.where} AND i.embedding IS NOT NULL LIMIT %(limit)s)"
        f" SELECT id, (SELECT count(*) FROM kept), 1 - (embedding <=> %(query)s::halfvec({dim})) AS score"
        " FROM kept ORDER BY score DESC, id LIMIT %(k)s"
    )


def by_index(cond: Condition, dim: int, columns: str) -> str:
    """By HNSW, of which `more` are taken; `columns` of them, then the score."""
    # The inner query orders by distance alone: a second sort key loses the HNSW index.
    distance = f"i.embedding::halfvec({dim}) <=> %(query)s::halfvec({dim})"
    return (
        f"SELECT {columns}, 1 - distance AS score FROM (SELECT {columns}, {distance} AS distance"
        f" FROM {cond.table} i WHERE {cond.where} ORDER BY {distance} LIMIT %(more)s) i"
        " WHERE distance IS NOT NULL ORDER BY score DESC, id LIMIT %(k)s"
    )
