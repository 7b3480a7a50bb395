"""API keys ↔ messages."""

from __future__ import annotations

from plait.domain.access import Caller, Quota, Verb
from plait.domain.answers.keys import NewSecret
from plait.domain.keys import ApiKey
from plait.v1 import access_service_pb2 as pb
from plait.wire import scalars

VERBS = {
    Verb.READ: pb.KEY_VERB_READ,
    Verb.WRITE: pb.KEY_VERB_WRITE,
    Verb.ADMIN: pb.KEY_VERB_ADMIN,
}
VERB_OF = {number: verb for verb, number in VERBS.items()}


def key(value: ApiKey) -> pb.ApiKey:
    caller, quota = value.caller, value.caller.quota
    return pb.ApiKey(
        id=value.id,
        name=value.name,
        tenant=caller.tenant,
        repositories=sorted(caller.repositories),
        verbs=[number for verb, number in VERBS.items() if verb in caller.verbs],
        made_by=value.made_by,
        calls_per_minute=quota.calls_per_minute,
        max_request_bytes=quota.max_request_bytes,
        max_concurrent=quota.max_concurrent,
        create_time=scalars.timestamp(value.created_at),
        rotate_time=scalars.timestamp(value.rotated_at),
        expire_time=scalars.timestamp(value.expires_at),
        revoke_time=scalars.timestamp(value.revoked_at),
    )


def key_of(message: pb.ApiKey) -> ApiKey:
    caller = Caller(
        id=message.id,
        verbs=frozenset(VERB_OF[verb] for verb in message.verbs if verb in VERB_OF),
        tenant=message.tenant,
        repositories=frozenset(message.repositories),
        quota=Quota(message.calls_per_minute, message.max_request_bytes, message.max_concurrent),
    )
    return ApiKey(
        caller=caller,
        name=message.name,
        created_at=scalars.datetime_of(message.create_time),
        made_by=message.made_by,
        rotated_at=scalars.optional_time(message, "rotate_time"),
        expires_at=scalars.optional_time(message, "expire_time"),
        revoked_at=scalars.optional_time(message, "revoke_time"),
    )


def created(value: NewSecret) -> pb.CreateKeyResponse:
    return pb.CreateKeyResponse(key=key(value.key), secret=value.secret)


def created_of(message: pb.CreateKeyResponse) -> NewSecret:
    return NewSecret(key_of(message.key), message.secret)


def rotated(value: NewSecret) -> pb.RotateKeyResponse:
    return pb.RotateKeyResponse(
        key=key(value.key),
        secret=value.secret,
        old_secret_expire_time=scalars.timestamp(value.old_until),
    )


def rotated_of(message: pb.RotateKeyResponse) -> NewSecret:
    until = scalars.datetime_of(message.old_secret_expire_time)
    return NewSecret(key_of(message.key), message.secret, until)
