"""API keys: who may call over TCP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from plait.domain.keys import ApiKey, KeySecret


class KeyStore(Protocol):
    """The API keys of one installation, of all its tenants. Every method may raise StoreUnavailable."""

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """Raises: KeyNameTaken, if an active key of the tenant has the name; TooManyKeys."""
        ...

    async def list(self) -> Sequence[ApiKey]:
        """Every key, oldest first; ended ones for at least 90 days, until the next key is created."""
        ...

    async def secret_of(self, digest: bytes) -> KeySecret | None:
        """The secret with this digest, active or ended; None: there is none."""
        ...

    async def replace_secret(self, key_id: str, digest: bytes, old_until: datetime) -> ApiKey:
        """Give an active key a new secret. Its old ones end at `old_until`, or earlier if that was set
        before.

        Raises: KeyUnknown, KeyEnded.
        """
        ...

    async def revoke(self, key_id: str) -> ApiKey:
        """End the key with all its secrets, at once; a second time changes nothing. Raises: KeyUnknown."""
        ...
