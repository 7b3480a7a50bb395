"""RelationStore: the code graph of a view's revision, the links of runs and memories, and the items behind nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from plait.domain.values import Collection, Filter, ItemId, Revision
from plait.ports import CodeGraph, MemoryLink, View
from vector.connection.pool import Scoped
from vector.search.filters import condition
from vector.search.partial_graph import PartialGraph
from vector.search.relations_cache import GraphCache, Read

MAX_ENDS = 400  # of one query; more than a context has room for
MAX_LINKS = 400

_LINK = """
SELECT e.id, r.name, e.relation, e.source, e.target, e.confidence::float8, e.resolver, e.recorded_from
  FROM unnest(%(repos)s::int[], %(names)s::text[]) AS w (repo_id, name)
  JOIN memory_edge e ON e.repo_id = w.repo_id AND e.{end} = w.name
  JOIN repository r ON r.id = e.repo_id
 WHERE {times}
"""
NOW = "e.recorded_to IS NULL"
THEN = "e.recorded_from <= %(recorded)s AND (e.recorded_to IS NULL OR e.recorded_to > %(recorded)s)"
VALID = (
    " AND (e.valid_from IS NULL OR e.valid_from <= coalesce(%(valid)s, now()))"
    " AND (e.valid_to IS NULL OR e.valid_to > coalesce(%(valid)s, now()))"
)


class Relations:
    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._graphs = GraphCache(app.settings.recall.max_graph_edges)

    async def close(self) -> None:
        """Cancel the reads of graphs that are still loading."""
        await self._graphs.close()

    async def code_graph(self, view: View, repo: str, *, wait_s: float = 0.0) -> CodeGraph | None:
        revision = revision_of(view, repo)
        if revision is None:
            return None
        return await self._graphs.load(revision, self._reader(view), wait_s)

    def partial_graph(self, view: View, repo: str) -> PartialGraph:
        revision = revision_of(view, repo)
        assert revision is not None, "asked of a repository that the view has"
        return PartialGraph(revision, self._reader(view))

    def _reader(self, view: View) -> Read:
        async def read(query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
            return await self._app.rows(query, given, tenant=view.tenant)

        return read

    def graph_state(self, view: View, repo: str) -> str:
        revision = revision_of(view, repo)
        return "none" if revision is None else self._graphs.state(revision)

    async def links(
        self, view: View, ends: Sequence[tuple[str, str]], limit: int
    ) -> list[MemoryLink]:
        named = _ends(view, ends)
        if not named or limit <= 0:
            return []
        given = {
            "repos": [repo_id for repo_id, _ in named],
            "names": [name for _, name in named],
            "valid": view.valid,
            "recorded": view.recorded,
            "limit": min(limit, MAX_LINKS),
        }
        times = (NOW if view.recorded is None else THEN) + VALID
        query = (
            f"SELECT * FROM ({_LINK.format(end='source', times=times)}"
            f" UNION {_LINK.format(end='target', times=times)}) AS l"
            " ORDER BY l.recorded_from DESC, l.id DESC LIMIT %(limit)s"
        )
        rows = await self._app.rows(query, given, tenant=view.tenant)
        return [MemoryLink(*row[1:]) for row in rows]

    async def items_of(
        self, view: View, ends: Sequence[tuple[str, str]], where: Filter, limit: int
    ) -> dict[tuple[str, str], list[ItemId]]:
        names = {revision.repo_id: revision.repo for revision in view.revisions}
        # By the kind of id: a diff's is its item's, a memory's its entry's, a run has several items.
        by_kind: dict[str, dict[UUID, list[tuple[str, str]]]] = {
            "id": {},
            "entry": {},
            "episode": {},
        }
        for repo_id, name in _ends(view, ends):
            kind, id_ = _parsed(name)
            if kind:
                by_kind[kind].setdefault(id_, []).append((names[repo_id], name))
        of_agents = tuple(c for c in where.collections or Collection if c != Collection.FILES)
        if not any(by_kind.values()) or not of_agents:
            return {}
        cond = condition(view, _only(where, of_agents))
        given = {
            **cond.params,
            **{f"{kind}s": list(ids) for kind, ids in by_kind.items()},
            "limit": min(limit, MAX_LINKS),
        }
        # Each kind by its own index; only memories have one of entries.
        query = (
            f"SELECT i.id, i.entry_id, i.episode_id FROM {cond.table} i WHERE {cond.where}"
            " AND i.id = ANY(%(ids)s::uuid[] || ARRAY("
            "SELECT m.id FROM memories m WHERE m.entry_id = ANY(%(entrys)s)"
            " UNION ALL SELECT e.id FROM item e WHERE e.episode_id = ANY(%(episodes)s)))"
            " ORDER BY i.ts DESC, i.id LIMIT %(limit)s"
        )
        found: dict[tuple[str, str], list[ItemId]] = {}
        for row in await self._app.rows(query, given, tenant=view.tenant):
            for kind, id_ in zip(by_kind, row, strict=True):
                for end in by_kind[kind].get(id_, ()):
                    found.setdefault(end, []).append(ItemId(row[0]))
        return found


def revision_of(view: View, repo: str) -> Revision | None:
    return next((r for r in view.revisions if r.repo == repo), None)


def _ends(view: View, ends: Sequence[tuple[str, str]]) -> list[tuple[int, str]]:
    """Those in the view's repositories, once each, at most `MAX_ENDS`, as `(repo_id, name)`."""
    ids = {revision.repo: revision.repo_id for revision in view.revisions}
    found = dict.fromkeys(
        (ids[repo], name) for repo, name in ends if repo in ids and name and "\0" not in name
    )
    return list(found)[:MAX_ENDS]


def _parsed(name: str) -> tuple[str, UUID]:
    """Of `diff/<item>/<path>`, `memory/<entry>` and `episode/<id>` the kind of id and the id; "" else."""
    head, _, rest = name.partition("/")
    kind = {"diff": "id", "memory": "entry", "episode": "episode"}.get(head, "")
    try:
        return kind, UUID(rest.partition("/")[0])
    except ValueError:
        return "", UUID(int=0)


def _only(where: Filter, collections: tuple[Collection, ...]) -> Filter:
    return replace(where, collections=collections)
