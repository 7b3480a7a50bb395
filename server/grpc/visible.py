"""What of a tenant a caller sees, whose key has some of its repositories alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from plait.domain.errors import CypherNotAllowed, RepositoryNotIndexed
from plait.domain.memory import MemoryFilter
from plait.domain.scope import qualify, unqualify
from plait.domain.values import Collection, Filter
from plait.ports import View
from server.access import current

_ANY = tuple(Collection)


class Views(Protocol):
    """What this uses of a `SearchStore`."""

    async def view(self, where: Filter) -> View: ...


def sees(tenant: str, qualified: str) -> bool:
    """Whether the caller sees a repository, by the name that the stores know."""
    return current.caller().sees(unqualify(tenant, qualified))


def is_limited() -> bool:
    """Whether the caller sees some repositories alone."""
    return bool(current.caller().repositories)


def own(tenant: str) -> tuple[str, ...]:
    """The qualified names of a limited caller's repositories, whether they exist or not; else ()."""
    return tuple(sorted(qualify(tenant, name) for name in current.caller().repositories))


async def narrowed(search: Views, where: Filter) -> Filter:
    """`where`; "all repositories" of a limited caller are those of its own that are there.

    Raises: RepositoryNotIndexed, where none is.
    """
    if not where.all_repos or not is_limited():
        return where
    everything = Filter(
        all_repos=True, tenant=where.tenant, collections=where.collections, as_of=where.as_of
    )
    known = {revision.repo for revision in (await search.view(everything)).revisions}
    names = tuple(name for name in own(where.tenant) if name in known)
    if not names:
        raise RepositoryNotIndexed(own(where.tenant)[0])
    return replace(where, repos=names, all_repos=False)


async def narrowed_memories(search: Views, where: MemoryFilter) -> MemoryFilter:
    """As `narrowed`."""
    if not where.all_repos or not is_limited():
        return where
    found = await narrowed(search, Filter(all_repos=True, tenant=where.tenant, collections=_ANY))
    return replace(where, repos=found.repos, all_repos=False)


def check_cypher() -> None:
    """The one place that says who may send raw Cypher. Raises: CypherNotAllowed."""
    if is_limited():
        raise CypherNotAllowed(
            "this key has some repositories alone, and Cypher reads the whole graph; use a template "
            "(`plait graph --help` lists them)"
        )
