"""Whose memory it is: tenant → repository → agent → session. No I/O.

A tenant is the outermost wall. Inside the stores a repository goes by its qualified name: plain for
the default tenant, `tenant@name` for any other; PostgreSQL's row security compares tenants once more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from plait.domain.errors import InvalidInput

DEFAULT_TENANT = "default"
MAX_TENANT = 64

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a write or a query. `agent_id` and `session_key` empty: all."""

    tenant: str
    repo: str
    agent_id: str = ""
    session_key: str = ""

    @property
    def repository(self) -> str:
        """The qualified name, as the stores and the graph know it."""
        return qualify(self.tenant, self.repo)


def check_tenant(tenant: str, at: str = "tenant") -> str:
    """Raises: InvalidInput."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidInput(
            f"{at} {tenant[:40]!r} is no tenant's name; use 1 to {MAX_TENANT} lower-case letters, "
            "digits, '_' and '-', first a letter or digit",
            field=at,
        )
    return tenant


def qualify(tenant: str, repo: str) -> str:
    """`repo` as the stores know it. Raises: InvalidInput, for an '@' that would name another tenant."""
    if tenant == DEFAULT_TENANT:
        return repo
    if "@" in repo:
        raise InvalidInput(
            f"repository {repo[:80]!r} holds an '@', which stands between a tenant and its "
            "repositories; choose another name",
            field="repository",
        )
    return f"{tenant}@{repo}"


def unqualify(tenant: str, qualified: str) -> str:
    """The name as `tenant` gave it."""
    return qualified if tenant == DEFAULT_TENANT else qualified.removeprefix(f"{tenant}@")


def owner_of(qualified: str) -> str:
    """The tenant of a repository, which its qualified name tells: `check_own` sees to that."""
    prefix, at, _ = qualified.partition("@")
    return prefix if at and _TENANT.fullmatch(prefix) else DEFAULT_TENANT


def check_own(tenant: str, qualified: str) -> None:
    """A new repository's qualified name must be one that `qualify` gives to no other tenant.

    Raises: InvalidInput.
    """
    owner = owner_of(qualified)
    if owner != tenant:
        name = unqualify(tenant, qualified)
        raise InvalidInput(
            f"repository {name[:80]!r} looks like one of a tenant {owner!r}: an '@' stands between a "
            "tenant and its repositories; choose another name with `--repo NAME`",
            field="repository",
        )
