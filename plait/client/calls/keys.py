"""Calls of AccessService as values."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.domain.access import Quota, Verb
from plait.domain.answers.keys import NewSecret
from plait.domain.keys import ApiKey
from plait.v1 import access_service_pb2 as pb
from plait.wire import keys
from plait.wire.sendable import number, sendable

_SERVICE = "AccessService"


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
        verbs=[number(keys.VERBS, verb, "verbs") for verb in verbs],
        calls_per_minute=quota.calls_per_minute,
        max_request_bytes=quota.max_request_bytes,
        max_concurrent=quota.max_concurrent,
    )
    if ttl is not None:
        request.ttl.FromTimedelta(ttl)
    timeout, answer = timeout_s or timeouts.WRITE_S, pb.CreateKeyResponse
    return Call(_SERVICE, "CreateKey", request, answer, keys.created_of, timeout, retry=False)


@sendable
def list_keys(include_ended: bool, timeout_s: float | None) -> Call[tuple[ApiKey, ...]]:
    request = pb.ListKeysRequest(include_ended=include_ended)
    timeout, answer = timeout_s or timeouts.READ_S, pb.ListKeysResponse
    return Call(_SERVICE, "ListKeys", request, answer, _listed, timeout)


def _listed(message: pb.ListKeysResponse) -> tuple[ApiKey, ...]:
    return tuple(keys.key_of(one) for one in message.keys)


@sendable
def rotate_key(key_id: str, grace: timedelta | None, timeout_s: float | None) -> Call[NewSecret]:
    """Not retried: each try is a rotation."""
    request = pb.RotateKeyRequest(key_id=key_id)
    if grace is not None:
        request.grace.FromTimedelta(grace)
    timeout, answer = timeout_s or timeouts.WRITE_S, pb.RotateKeyResponse
    return Call(_SERVICE, "RotateKey", request, answer, keys.rotated_of, timeout, retry=False)


@sendable
def revoke_key(key_id: str, timeout_s: float | None) -> Call[ApiKey]:
    request, answer = pb.RevokeKeyRequest(key_id=key_id), pb.RevokeKeyResponse
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "RevokeKey", request, answer, lambda m: keys.key_of(m.key), timeout)
