"""AccessService: make, list, rotate and revoke API keys."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from plait.domain.access import Caller, Quota
from plait.domain.answers.keys import NewSecret
from plait.domain.errors import KeyUnknown, ScopeMissing
from plait.domain.keys import ApiKey
from plait.domain.scope import DEFAULT_TENANT, check_tenant, qualify
from plait.v1 import access_service_pb2 as pb
from plait.v1 import access_service_pb2_grpc
from plait.wire import keys
from server.access import current, grants
from server.access.keys import KeyCache, digest_of, new_secret
from server.app import App
from server.grpc.messages import parse, scope

DEFAULT_GRACE = timedelta(hours=24)
LONGEST_GRACE = timedelta(days=30)
LONGEST_TTL = timedelta(days=3650)
MAX_CALLS_PER_MINUTE = 1_000_000
MAX_CONCURRENT = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AccessService(access_service_pb2_grpc.AccessServiceServicer):
    """`cache`: what this process lets callers in by."""

    def __init__(self, app: App, cache: KeyCache) -> None:
        self._store = app.truth.keys
        self._commit = app.commit
        self._cache = cache
        self._scopes = app.settings.scope

    async def CreateKey(self, request: pb.CreateKeyRequest, context: Any) -> pb.CreateKeyResponse:
        giver = self._giver(context)
        key, secret = _new_key(request, giver), new_secret()
        grants.check_grant(giver, key, await self._end_of(giver))
        await self._commit(self._store.add(key, digest_of(secret)))
        return keys.created(NewSecret(key, secret))

    async def ListKeys(self, request: pb.ListKeysRequest, context: Any) -> pb.ListKeysResponse:
        giver, now = self._giver(context), datetime.now(UTC)
        found = [
            keys.key(key)
            for key in await self._store.list()
            if grants.covers(giver, key.caller) and (request.include_ended or key.is_alive(now))
        ]
        return pb.ListKeysResponse(keys=found)

    async def RotateKey(self, request: pb.RotateKeyRequest, context: Any) -> pb.RotateKeyResponse:
        giver, secret = self._giver(context), new_secret()
        grace = DEFAULT_GRACE
        if request.HasField("grace"):
            grace = _duration(request.grace, "grace", timedelta(0), LONGEST_GRACE)
        key = await self._managed(giver, request.key_id)
        grants.check_grant(giver, key, await self._end_of(giver))
        until = datetime.now(UTC) + grace
        rotated = await self._commit(self._store.replace_secret(key.id, digest_of(secret), until))
        self._cache.clear()
        if rotated.expires_at is not None:
            until = min(until, rotated.expires_at)
        return keys.rotated(NewSecret(rotated, secret, until))

    async def RevokeKey(self, request: pb.RevokeKeyRequest, context: Any) -> pb.RevokeKeyResponse:
        giver = self._giver(context)
        key = await self._managed(giver, request.key_id)
        revoked = await self._commit(self._store.revoke(key.id))
        self._cache.clear()
        return pb.RevokeKeyResponse(key=keys.key(revoked))

    def _giver(self, context: Any) -> Caller:
        """Raises: Forbidden, for a caller without the verb `admin`, and one that claims another tenant."""
        caller = current.caller()
        grants.check_may_manage(caller)
        scope.tenant_of(context, self._scopes)
        return caller

    async def _managed(self, giver: Caller, key_id: str) -> ApiKey:
        """Raises: InvalidInput, KeyUnknown."""
        parse.text(key_id, "key_id", parse.MAX_NAME_BYTES)
        for key in await self._store.list():
            if key.id == key_id and grants.covers(giver, key.caller):
                return key
        raise KeyUnknown(key_id)

    async def _end_of(self, giver: Caller) -> datetime | None:
        """When `giver`'s own key ends; None: it is none, or never ends."""
        own = [key.expires_at for key in await self._store.list() if key.id == giver.id]
        return own[0] if own else None


def _new_key(request: pb.CreateKeyRequest, giver: Caller) -> ApiKey:
    """Raises: InvalidInput, ScopeMissing."""
    if not _NAME.fullmatch(request.name):
        raise parse.bad(
            "name",
            f"is {request.name[:64]!r}; it must be 1 to 64 letters, digits, '.', '_' and '-', "
            "first a letter or digit",
        )
    tenant = _tenant(request, giver)
    repositories = parse.repositories(request.repositories, "repositories")
    scope.check_named(repositories, request.all_repositories)
    for name in repositories:
        qualify(tenant or DEFAULT_TENANT, name)
    verbs = frozenset(keys.VERB_OF.get(number) for number in request.verbs)
    known = frozenset(verb for verb in verbs if verb is not None)
    if not verbs or verbs != known:
        raise parse.bad("verbs", "names no verb, or one that is none; give read, write or admin")
    now = datetime.now(UTC)
    expires_at = None
    if request.HasField("ttl"):
        expires_at = now + _duration(request.ttl, "ttl", timedelta(seconds=1), LONGEST_TTL)
    caller = Caller(
        id=f"key-{secrets.token_hex(8)}",
        verbs=known,
        tenant=tenant,
        repositories=frozenset(repositories),
        quota=_quota(request),
    )
    return ApiKey(caller, request.name, now, made_by=giver.id, expires_at=expires_at)


def _tenant(request: pb.CreateKeyRequest, giver: Caller) -> str:
    """The new key's tenant, "" for any. Raises: InvalidInput, ScopeMissing."""
    if request.tenant and request.all_tenants:
        raise parse.bad("tenant", "is set and all_tenants too; leave one of them out")
    if request.all_tenants:
        return ""
    if not (tenant := request.tenant or giver.tenant):
        raise ScopeMissing(
            "tenant is empty: name the tenant whose calls the key is for, or set all_tenants",
            field="tenant",
        )
    return check_tenant(tenant)


def _quota(request: pb.CreateKeyRequest) -> Quota:
    """Raises: InvalidInput."""
    limits = {
        "calls_per_minute": MAX_CALLS_PER_MINUTE,
        "max_request_bytes": 2**31 - 1,
        "max_concurrent": MAX_CONCURRENT,
    }
    for name, most in limits.items():
        if not 0 <= getattr(request, name) <= most:
            raise parse.bad(name, f"is {getattr(request, name)}; it must be 0 to {most}")
    return Quota(**{name: getattr(request, name) for name in limits})


def _duration(message: Duration, field: str, least: timedelta, most: timedelta) -> timedelta:
    """Raises: InvalidInput."""
    # A whole message may hold more than a timedelta can.
    seconds = message.seconds + message.nanos / 1e9
    if not least.total_seconds() <= seconds <= most.total_seconds():
        raise parse.bad(
            field,
            f"is {seconds:g} s; it must be {least.total_seconds():g} s to {most.days} days",
        )
    return timedelta(seconds=seconds)
