"""What a ranking asks of memories beside its arms: the versions that it found, and whether some wait for a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.domain.memory import AsOf, MemoryEntry, MemoryQueryOptions
from plait.domain.values import ItemId
from vector.connection.arrays import uuid_array
from vector.connection.pool import Scoped
from vector.memories.read import COLUMNS, FROM, WIDTH, matching, scope, see, to_entry


async def by_id(
    app: Scoped, tenant: str, ids: Sequence[ItemId], as_of: AsOf
) -> Mapping[ItemId, MemoryEntry]:
    """See `MemoryStore.versions`."""
    if not ids:
        return {}
    rows = await app.rows(
        f"SELECT {COLUMNS}, i.id {FROM} WHERE i.id = ANY(%(ids)s)",
        {"ids": uuid_array(ids)},
        tenant=tenant,
    )
    found = {ItemId(row[WIDTH]): to_entry(row, as_of.recorded) for row in rows}
    return {id_: found[id_] for id_ in ids if id_ in found}


async def unembedded(app: Scoped, options: MemoryQueryOptions) -> bool:
    """See `MemoryStore.unembedded`."""
    where = options.filter
    repos, named = scope(where)
    cond = see(matching(where, None), options.as_of)
    ((some,),) = await app.rows(
        f"SELECT EXISTS (SELECT FROM ({repos}) r JOIN memories i ON i.repo_id = r.id"
        f" WHERE {cond.sql} AND i.embedding IS NULL)",
        {**cond.params, **named},
        tenant=where.tenant,
    )
    return bool(some)
