"""A failed call as an error of Plait: the code, the reason and the values the server sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import grpc

from plait.domain.errors import (
    MessageTooLarge,
    MethodUnknown,
    PlaitError,
    StreamBroken,
    TooManyCalls,
)
from plait.lazy import lazy_module

if TYPE_CHECKING:
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    from plait.v1 import types_pb2
else:
    error_details_pb2 = lazy_module("google.rpc.error_details_pb2")
    rpc_status = lazy_module("grpc_status.rpc_status")

DOMAIN = "plait"
# grpc.aio's message when a stream ends during a write, whatever the server's status.
_WRITE_FAILED = "Internal error from Core"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class PlaitRpcError(PlaitError):
    """A call that failed, as its caller sees it.

    `reason` is the server's (docs/errors.md), or the code's name when something other than Plait
    answered. `fields`: the request fields at fault with what is wrong about each. `retry_after_s`: how
    long the server asks to wait; 0 when trying again won't help.
    """

    reason: str  # type: ignore[misc]  # of the instance: one class stands for every reason

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message, **(metadata or {}))
        self.code = code
        self.reason = reason or code.name
        self.fields = dict(fields or {})
        self.retry_after_s = retry_after_s


def from_rpc(exc: grpc.RpcError) -> PlaitRpcError:
    """The message of `exc`, with its details if it has them."""
    code: grpc.StatusCode = exc.code()
    message: str = exc.details() or code.name
    status = None
    try:
        status = rpc_status.from_call(exc)  # type: ignore[arg-type]  # each RpcError of a call is one
    except ValueError:  # details that contradict the code: take the code's side
        status = None
    if status is None:
        return _without_details(code, message)
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        for kind in (info, bad, retry):
            if detail.Is(kind.DESCRIPTOR):
                detail.Unpack(kind)
    return PlaitRpcError(
        code,
        status.message or message,
        reason=info.reason if info.domain == DOMAIN else "",
        metadata=info.metadata,
        fields={v.field: v.description for v in bad.field_violations},
        retry_after_s=retry.retry_delay.ToTimedelta().total_seconds(),
    )


def from_item(error: types_pb2.ItemError) -> PlaitRpcError:
    """The error of one item of a batch or a stream, as if it had been sent alone."""
    code = _CODES.get(error.code, grpc.StatusCode.UNKNOWN)
    fields = {error.field: error.message} if error.field else {}
    return PlaitRpcError(
        code, error.message, reason=error.reason, metadata=error.metadata, fields=fields
    )


def _without_details(code: grpc.StatusCode, message: str) -> PlaitRpcError:
    """What gRPC itself reports, on this side or the other: the reason that fits, else the code's name."""
    unavailable, exhausted = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
    if code is unavailable:
        text = f"no server answers ({message}); start one with `plait serve`, or check the address"
        return PlaitRpcError(code, text)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = "the deadline passed before the server answered; allow more time, or ask for less"
        return PlaitRpcError(code, text)
    if code is grpc.StatusCode.INTERNAL and message == _WRITE_FAILED:
        text = "the server ended the stream while it was written to; send what has no answer again"
        return PlaitRpcError(unavailable, text, reason=StreamBroken.reason)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        text = (
            f"the server has no such method ({message}); use a client and a server of one version"
        )
        return PlaitRpcError(code, text, reason=MethodUnknown.reason)
    if code is exhausted and "larger than max" in message:
        text = f"{message}; send or ask for less at a time, or raise `server.max_message_bytes`"
        return PlaitRpcError(code, text, reason=MessageTooLarge.reason)
    if code is exhausted and "oncurrent" in message:
        text = f"the server answers as many calls as it may ({message}); try again in a moment"
        return PlaitRpcError(code, text, reason=TooManyCalls.reason)
    return PlaitRpcError(code, message)
