"""Memories by tag, for a filter that keeps few of many: one look-up in an index in place of reading all rows."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.values import Collection, Filter
from plait.ports import View
from vector.connection.arrays import uuid_array
from vector.connection.pool import Scoped
from vector.connection.uuids import uuids
from vector.search.filters import Condition

# Memories that are looked up at most; each of more is read as fast.
MOST = 5_000

_TAGGED = """
SELECT coalesce(string_agg(uuid_send(t.id), ''::bytea), ''::bytea)
  FROM tagged_memories(%(in)s::int[], %(any)s::text[], %(all)s::text[], %(most)s) t
"""


def applies(where: Filter) -> bool:
    """Whether `where` asks for tags, and of memories alone."""
    return bool(where.tags_any or where.tags_all) and where.collections == (Collection.MEMORIES,)


async def narrowed(app: Scoped, view: View, where: Filter, cond: Condition) -> Condition:
    """`cond`, the condition of `where`, said of the memories with its tags alone; as it is if more than `MOST` have
    them. Use it where `applies` and few are expected: those of a common tag are all looked up to find that out."""
    params = {
        "in": [r.repo_id for r in view.revisions],
        "any": list(where.tags_any),
        "all": list(where.tags_all),
        "most": MOST + 1,
    }
    ((found,),) = await app.rows(_TAGGED, params, tenant=view.tenant)
    ids = uuids(found)
    if len(ids) > MOST:
        return cond
    return replace(
        cond,
        where=f"i.id = ANY(%(tagged)s) AND {cond.where}",
        params={**cond.params, "tagged": uuid_array(ids)},
    )
