"""API keys ↔ messages."""

from __future__ import annotations

from plait.domain.access import Caller, Quota, Verb
from plait.domain.keys import ApiKey
from plait.v1 import access_service_pb2 as pb
from plait.wire import messages

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
        create_time=messages.timestamp(value.created_at),
        rotate_time=messages.timestamp(value.rotated_at),
        expire_time=messages.timestamp(value.expires_at),
        revoke_time=messages.timestamp(value.revoked_at),
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
        created_at=messages.datetime_of(message.create_time),
        made_by=message.made_by,
        rotated_at=messages.datetime_of(message.rotate_time)
        if message.HasField("rotate_time")
        else None,
        expires_at=messages.datetime_of(message.expire_time)
        if message.HasField("expire_time")
        else None,
        revoked_at=messages.datetime_of(message.revoke_time)
        if message.HasField("revoke_time")
        else None,
    )
