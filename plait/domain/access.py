"""Who calls, and what they may do. No I/O.

A caller is recognised once, where a call enters the server; what it may do travels with it as a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """What a method does. `ADMIN`: index, compact, forget, delete, keys."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


ALL_VERBS = frozenset(Verb)


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one caller, beside those of the server; 0: none of its own."""

    calls_per_minute: int = 0
    max_request_bytes: int = 0
    max_concurrent: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """`id` is written to logs and the audit log: `owner`, `token`, or an API key's id, never a secret.

    `tenant` empty: the call's metadata may name one. Otherwise every call is this tenant's, and metadata
    that name another are refused. `repositories`: names as the tenant gave them; empty: all of the tenant.
    `local`: over the home's socket, so an account that may read the files of this home anyway.
    """

    id: str
    verbs: frozenset[Verb] = ALL_VERBS
    tenant: str = ""
    repositories: frozenset[str] = frozenset()
    local: bool = False
    quota: Quota = Quota()

    def may(self, verb: Verb) -> bool:
        """Each verb is given by itself: `admin` does not include `read`."""
        return verb in self.verbs

    def sees(self, repository: str) -> bool:
        """Whether `repository`, by the tenant's name for it, is one that this caller may name."""
        return not self.repositories or repository in self.repositories


OWNER = Caller("owner", local=True)
