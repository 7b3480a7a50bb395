"""API keys: who may call over TCP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from plait.domain.keys import ApiKey, KeySecret


class KeyStore(Protocol):
    """The API keys of one installation, of all its tenants. Every method may raise StoreUnavailable."""

    async def add(self, key: ApiKey, digest: bytes) -> None:
        """Raises: KeyNameTaken, where a living key of the tenant has the name; TooManyKeys."""
        ...

    async def list(self) -> Sequence[ApiKey]:
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

    async def revoke(self, key_id: str) -> ApiKey:
        """End the key with all its secrets, at once; a second time changes nothing. Raises: KeyUnknown."""
        ...
