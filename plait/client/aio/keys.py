"""API keys, for the asynchronous client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from plait.domain.access import Quota, Verb
from plait.lazy import lazy_module

if TYPE_CHECKING:
    from plait.client.calls import keys as key_calls
    from plait.client.calls.call import Call
    from plait.domain.answers.keys import NewSecret
    from plait.domain.keys import ApiKey
else:
    key_calls = lazy_module("plait.client.calls.keys")

T = TypeVar("T")
NO_LIMITS = Quota()


class AsyncKeyMethods(ABC):
    """API keys: who may call over TCP. They need the verb `admin`."""

    @abstractmethod
    async def _run(self, call: Call[T]) -> T: ...

    async def create_key(
        self,
        name: str,
        *,
        tenant: str = "",
        all_tenants: bool = False,
        repositories: Collection[str] = (),
        all_repositories: bool = False,
        verbs: Collection[Verb] = (Verb.READ,),
        quota: Quota = NO_LIMITS,
        ttl: timedelta | None = None,
        timeout_s: float | None = None,
    ) -> NewSecret:
        """Make a key. Its secret is in this answer and nowhere else. `ttl` None: until it is revoked."""
        return await self._run(
            key_calls.create_key(
                name,
                tenant=tenant,
                all_tenants=all_tenants,
                repositories=repositories,
                all_repositories=all_repositories,
                verbs=verbs,
                quota=quota,
                ttl=ttl,
                timeout_s=timeout_s,
            )
        )

    async def list_keys(
        self, *, include_ended: bool = False, timeout_s: float | None = None
    ) -> tuple[ApiKey, ...]:
        """The keys that the caller manages, oldest first."""
        return await self._run(key_calls.list_keys(include_ended, timeout_s))

    async def rotate_key(
        self, key_id: str, *, grace: timedelta | None = None, timeout_s: float | None = None
    ) -> NewSecret:
        """Another secret for a key; those before are valid for `grace` yet (None: 24 hours)."""
        return await self._run(key_calls.rotate_key(key_id, grace, timeout_s))

    async def revoke_key(self, key_id: str, *, timeout_s: float | None = None) -> ApiKey:
        """End a key with all its secrets."""
        return await self._run(key_calls.revoke_key(key_id, timeout_s))
