"""API keys: who may call over TCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

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


class KeyStore(Protocol):
    """The API keys of one installation, of all its tenants. Every method may raise StoreUnavailable."""

    async def add_key(self, key: ApiKey, digest: bytes) -> None:
        """Raises: KeyNameTaken, where a living key of the tenant has the name; TooManyKeys."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """Every key, oldest first; ended ones for 90 days and more, until another one is made."""
        ...

    async def secret_of(self, digest: bytes) -> KeySecret | None:
        """The secret with this digest, whatever became of it; None: there is none."""
        ...

    async def replace_secret(self, key_id: str, digest: bytes, old_until: datetime) -> ApiKey:
        """Give a living key another secret. Those it had end at `old_until`, or earlier where that was
        said before.

        Raises: KeyUnknown, KeyEnded.
        """
        ...

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End the key with all its secrets, at once; a second time changes nothing. Raises: KeyUnknown."""
        ...
