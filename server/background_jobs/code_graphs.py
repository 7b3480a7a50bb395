"""Code graphs as jobs beside the server's calls read them: a repository's, of the revision that is published now."""

from __future__ import annotations

from typing import Protocol

from plait.domain.scope import owner_of
from plait.domain.values import Collection, Filter
from plait.ports import CodeGraph, View


class Views(Protocol):
    """What this needs of a `SearchStore`."""

    async def view(self, where: Filter) -> View: ...


class Graphs(Protocol):
    """What this needs of a `RelationStore`."""

    async def code_graph(
        self, view: View, repo: str, *, wait_s: float = 0.0
    ) -> CodeGraph | None: ...


class CodeGraphs:
    """`wait_s`: how long a read waits for another of the same graph."""

    def __init__(self, search: Views, relations: Graphs, wait_s: float) -> None:
        self._search = search
        self._relations = relations
        self._wait_s = wait_s

    async def all_of(self, tenant: str) -> View:
        """The revisions of a tenant's repositories."""
        where = Filter(tenant=tenant, collections=(Collection.FILES,), all_repos=True)
        return await self._search.view(where)

    async def of(self, repo: str) -> CodeGraph | None:
        """The graph of `repo`, a qualified name; None for one that is too large to be kept in memory."""
        where = Filter(repos=(repo,), tenant=owner_of(repo), collections=(Collection.FILES,))
        return await self.at(await self._search.view(where), repo)

    async def at(self, view: View, repo: str) -> CodeGraph | None:
        """As `of`, of the revision that `view` has."""
        return await self._relations.code_graph(view, repo, wait_s=self._wait_s)
