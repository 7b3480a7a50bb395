"""The primary store: whole repositories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from plait.domain.scope import DEFAULT_TENANT
from plait.domain.values import Revision


class RepositoryStore(Protocol):
    async def list(self, tenant: str | None = None) -> Sequence[Revision]:
        """The published repositories of `tenant`, by name; of every tenant for None (maintenance)."""
        ...

    async def tenants(self) -> Sequence[str]:
        """Every tenant with a repository that is published, holds text, or may be in the graph still
        (maintenance, and what reads the whole graph)."""
        ...

    async def revision(self, repo: str) -> Revision:
        """Raises: RepositoryNotIndexed."""
        ...

    async def delete(self, repo: str, tenant: str = DEFAULT_TENANT) -> None:
        """Remove a repository whole, and queue its removal from the graph.

        Raises: RepositoryNotIndexed, also for one of another tenant.
        """
        ...
