"""Plait's errors as rich gRPC statuses: one table, by the nearest mapped ancestor.

Every status carries ErrorInfo(reason, domain "plait", metadata); an InvalidInput that knows its field
adds BadRequest; what may heal by itself adds RetryInfo. An error that nobody raised on purpose is
INTERNAL with an id that stands in the log beside the traceback, and nothing else leaks.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from plait.domain import errors as domain

logger = logging.getLogger(__name__)

DOMAIN = "plait"

CODES: Mapping[type[domain.PlaitError], grpc.StatusCode] = {
    domain.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    domain.NotFound: grpc.StatusCode.NOT_FOUND,
    domain.Conflict: grpc.StatusCode.ALREADY_EXISTS,
    domain.Precondition: grpc.StatusCode.FAILED_PRECONDITION,
    domain.Busy: grpc.StatusCode.ABORTED,
    domain.Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    domain.Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    domain.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    domain.Unavailable: grpc.StatusCode.UNAVAILABLE,
    domain.OutOfTime: grpc.StatusCode.DEADLINE_EXCEEDED,
    domain.NotBuilt: grpc.StatusCode.UNIMPLEMENTED,
    domain.PlaitError: grpc.StatusCode.INTERNAL,
}

# How long to wait before trying again. Guesses: a projection takes seconds, a restart a second or two.
RETRY_S: Mapping[type[domain.PlaitError], float] = {
    domain.Busy: 1.0,
    domain.Unavailable: 2.0,
    domain.TooManyCalls: 1.0,
    domain.TooManyConnections: 1.0,
}

# Trailing metadata is held to 8 KiB by many peers; the message itself travels in it twice.
_MAX_MESSAGE = 1500
_MAX_VALUE = 500
_MAX_VALUES = 16


def code_of(kind: type[domain.PlaitError]) -> grpc.StatusCode:
    return next(CODES[base] for base in kind.__mro__ if base in CODES)


def status_of(exc: domain.PlaitError) -> status_pb2.Status:
    """The whole status of `exc`, cut to what fits in trailing metadata."""
    message = _cut(exc.message, _MAX_MESSAGE)
    status = status_pb2.Status(code=code_of(type(exc)).value[0], message=message)
    metadata = {
        key: _cut(text, _MAX_VALUE) for key, text in list(exc.metadata.items())[:_MAX_VALUES]
    }
    _add(status, error_details_pb2.ErrorInfo(reason=exc.reason, domain=DOMAIN, metadata=metadata))
    if isinstance(exc, domain.InvalidInput) and exc.field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=field_path(_cut(exc.field, _MAX_VALUE)), description=message, reason=exc.reason
        )
        _add(status, error_details_pb2.BadRequest(field_violations=[violation]))
    if delay_s := retry_s(exc):
        delay = Duration(seconds=int(delay_s))
        _add(status, error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def retry_s(exc: domain.PlaitError) -> float:
    """Seconds after which the same may work; 0: it won't heal by itself."""
    if isinstance(exc, domain.QuotaExceeded):
        return exc.retry_s
    return next((s for family, s in RETRY_S.items() if isinstance(exc, family)), 0.0)


def internal(exc: BaseException, method: str) -> domain.Internal:
    """A fault of ours as an error that says nothing about it but the id under which the log has it."""
    error_id = secrets.token_hex(6)
    logger.error("internal error", exc_info=exc, extra={"error_id": error_id, "method": method})
    return domain.Internal(
        f"internal error; the server's log has it under {error_id}", error_id=error_id
    )


def _add(status: status_pb2.Status, detail: Message) -> None:
    status.details.add().Pack(detail)


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, whole characters, and nothing that can't travel."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "…"


def field_path(field: str) -> str:
    """A JSON pointer as protobuf writes paths: `/artifacts/3/kind` → `episode.artifacts[3].kind`."""
    if not field.startswith("/"):
        return field
    path = re.sub(r"/(\d+)(?=/|$)", r"[\1]", field).removeprefix("/").replace("/", ".")
    names = {"repo": "repository", "started_at": "start_time"}
    return path if path == "request_id" else f"episode.{names.get(path, path)}"
