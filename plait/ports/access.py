"""API keys: who may call over TCP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from plait.domain.access import Caller


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored: `digest` is SHA-256 of its secret, which is stored nowhere."""

    caller: Caller  # `caller.id` is the key's id
    name: str
    digest: bytes
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class KeyStore(Protocol):
    """The API keys of one installation, of all its tenants."""

    async def add_key(self, key: ApiKey) -> None:
        """Raises: Conflict, where a key of this name is alive."""
        ...

    async def keys(self) -> Sequence[ApiKey]:
        """Every key, revoked and expired ones too, oldest first."""
        ...

    async def key_of(self, digest: bytes) -> ApiKey | None:
        """The key with this digest, whatever its state; None: there is none."""
        ...

    async def replace_digest(self, key_id: str, digest: bytes, old_until: datetime) -> ApiKey:
        """Give the key another secret; the one before works until `old_until`.

        Raises: NotFound.
        """
        ...

    async def revoke_key(self, key_id: str) -> ApiKey:
        """End the key and the secrets it had, at once. Raises: NotFound."""
        ...
