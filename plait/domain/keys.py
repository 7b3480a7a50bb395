"""API keys and their secrets, as values. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from plait.domain.access import Caller


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, without its secrets. `made_by`: the id of the caller that made it."""

    caller: Caller  # `caller.id` is the key's id
    name: str  # of one living key of a tenant
    created_at: datetime
    made_by: str = ""
    rotated_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def id(self) -> str:
        return self.caller.id

    def is_alive(self, at: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True, slots=True)
class KeySecret:
    """One secret of a key, by its SHA-256 digest: the secret itself is stored nowhere. `valid_until` is
    set once another one replaced it."""

    key: ApiKey
    digest: bytes
    valid_until: datetime | None = None

    def is_alive(self, at: datetime) -> bool:
        """Whether it lets its holder in."""
        return self.key.is_alive(at) and (self.valid_until is None or at < self.valid_until)
