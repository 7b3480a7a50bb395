"""Calls of AccessService as values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.domain.access import Quota, Verb
from plait.domain.keys import ApiKey
from plait.v1 import access_service_pb2 as pb
from plait.wire import key_messages, messages
from plait.wire.sendable import number, sendable

_SERVICE = "AccessService"


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A key and its new secret, which is said this once. `old_until`: when those before end."""

    key: ApiKey
    secret: str = field(repr=False)
    old_until: datetime | None = None


@sendable
def create_key(
    name: str,
    *,
    tenant: str,
    all_tenants: bool,
    repositories: Collection[str],
    all_repositories: bool,
    verbs: Collection[Verb],
    quota: Quota,
    ttl: timedelta | None,
    timeout_s: float | None,
) -> Call[NewSecret]:
    """Not retried: a second try after a lost answer would say KEY_NAME_TAKEN."""
    request = pb.CreateKeyRequest(
        name=name,
        tenant=tenant,
        all_tenants=all_tenants,
        repositories=repositories,
        all_repositories=all_repositories,
        verbs=[number(key_messages.VERBS, verb, "verbs") for verb in verbs],
        calls_per_minute=quota.calls_per_minute,
        max_request_bytes=quota.max_request_bytes,
        max_concurrent=quota.max_concurrent,
    )
    if ttl is not None:
        request.ttl.FromTimedelta(ttl)
    timeout, answer = timeout_s or timeouts.WRITE_S, pb.CreateKeyResponse
    return Call(_SERVICE, "CreateKey", request, answer, _created, timeout, retry=False)


def _created(message: pb.CreateKeyResponse) -> NewSecret:
    return NewSecret(key_messages.key_of(message.key), message.secret)


@sendable
def list_keys(include_ended: bool, timeout_s: float | None) -> Call[tuple[ApiKey, ...]]:
    request = pb.ListKeysRequest(include_ended=include_ended)
    timeout, answer = timeout_s or timeouts.READ_S, pb.ListKeysResponse
    return Call(_SERVICE, "ListKeys", request, answer, _listed, timeout)


def _listed(message: pb.ListKeysResponse) -> tuple[ApiKey, ...]:
    return tuple(key_messages.key_of(one) for one in message.keys)


@sendable
def rotate_key(key_id: str, grace: timedelta | None, timeout_s: float | None) -> Call[NewSecret]:
    """Not retried: each try is a rotation."""
    request = pb.RotateKeyRequest(key_id=key_id)
    if grace is not None:
        request.grace.FromTimedelta(grace)
    timeout, answer = timeout_s or timeouts.WRITE_S, pb.RotateKeyResponse
    return Call(_SERVICE, "RotateKey", request, answer, _rotated, timeout, retry=False)


def _rotated(message: pb.RotateKeyResponse) -> NewSecret:
    until = messages.datetime_of(message.old_secret_expire_time)
    return NewSecret(key_messages.key_of(message.key), message.secret, until)


@sendable
def revoke_key(key_id: str, timeout_s: float | None) -> Call[ApiKey]:
    request, answer = pb.RevokeKeyRequest(key_id=key_id), pb.RevokeKeyResponse
    timeout = timeout_s or timeouts.WRITE_S
    return Call(
        _SERVICE, "RevokeKey", request, answer, lambda m: key_messages.key_of(m.key), timeout
    )
