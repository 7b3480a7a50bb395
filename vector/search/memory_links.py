"""MemoryLinkStore: what episodes and memories say of each other and of code, read from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plait.domain.graph import Link
from plait.ports import MemoryNode, View
from vector.connection.pool import Scoped
from vector.projection import layer
from vector.search.relations import NOW, THEN, VALID, revision_of

_LAYER = """
SELECT e.id, e.relation, e.source, e.target, e.resolver, e.confidence::float8, e.valid_from, e.valid_to,
       e.recorded_from, e.recorded_to
  FROM memory_edge e
 WHERE e.repo_id = %(repo)s AND e.{end} = ANY(%(ends)s) AND {times}
   AND (cardinality(%(relations)s::text[]) = 0 OR e.relation = ANY(%(relations)s))
   AND (cardinality(%(sources)s::text[]) = 0 OR split_part(e.source, '/', 1) = ANY(%(sources)s))
 ORDER BY e.recorded_from DESC, e.id DESC LIMIT %(limit)s
"""
_COMMITS = """
SELECT name FROM memory_node
 WHERE repo_id = %(repo)s AND name >= %(start)s AND name < %(end)s AND label = 'Commit'
 ORDER BY name LIMIT 50
"""


class MemoryLinks:
    def __init__(self, app: Scoped) -> None:
        self._app = app

    async def nodes(self, view: View, repo: str, names: Sequence[str]) -> dict[str, MemoryNode]:
        revision = revision_of(view, repo)
        known = dict.fromkeys(name for name in names if name and "\0" not in name)
        if revision is None or not known:
            return {}

        async def read(query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
            return await self._app.rows(query, given, tenant=view.tenant)

        found = await layer.named(read, revision.repo_id, repo, known)
        return {
            node.qualified_name: MemoryNode(node, found.properties[id_])
            for id_, node in found.nodes.items()
        }

    async def commits(self, view: View, repo: str, digits: str) -> list[str]:
        revision = revision_of(view, repo)
        if revision is None:
            return []
        # "g" is the first letter behind the digits.
        given = {
            "repo": revision.repo_id,
            "start": f"commit/{digits}",
            "end": f"commit/{digits}g",
        }
        return [name for (name,) in await self._app.rows(_COMMITS, given, tenant=view.tenant)]

    async def links(
        self,
        view: View,
        repo: str,
        ends: Sequence[str],
        relations: Sequence[str] = (),
        *,
        into: bool,
        limit: int,
        sources: Sequence[str] = (),
    ) -> list[Link]:
        revision = revision_of(view, repo)
        known = sorted({end for end in ends if end and "\0" not in end})
        if revision is None or not known or limit <= 0:
            return []
        given = {
            "repo": revision.repo_id,
            "ends": known,
            "relations": list(relations),
            "sources": list(sources),
            "valid": view.valid,
            "recorded": view.recorded,
            "limit": limit,
        }
        times = (NOW if view.recorded is None else THEN) + VALID
        query = _LAYER.format(end="target" if into else "source", times=times)
        rows = await self._app.rows(query, given, tenant=view.tenant)
        return [layer.link(repo, row) for row in rows]
