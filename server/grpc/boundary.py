"""The one place where a call enters and leaves: deadline, errors, log line, and who is in flight.

An interceptor, so that services are plain coroutines that return a message or raise a `PlaitError`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from plait.domain import failpoint
from plait.domain.errors import PlaitError, RequestMalformed
from plait.settings import ScopeSettings
from server.access import current
from server.audit import Audit
from server.grpc import refusals
from server.grpc.audited import Noted
from server.grpc.calls_in_progress import Calls
from server.grpc.deadlines import Patience
from server.grpc.door import Door, Visit
from server.grpc.errors import code_of, internal, status_of
from server.grpc.limits import UNLIMITED, Limits
from server.grpc.messages import scope

logger = logging.getLogger(__name__)

PREFIX = "/plait.v1."
# Calls whose answer acknowledges a write.
WRITES = frozenset(
    PREFIX + name
    for name in (
        "KnowledgeService/AppendEpisode",
        "KnowledgeService/IngestEpisodes",
        "KnowledgeService/ReportFeedback",
        "MemoryService/StoreMemory",
        "MemoryService/BatchStoreMemories",
        "MemoryService/DeleteMemory",
        "MemoryService/Learn",
    )
)


class Malformed:
    """Stands in for a request that did not parse, until there is a context to refuse it with."""


class TooLarge:
    """As `Malformed`, for a request of more bytes than one may have."""

    def __init__(self, size: int) -> None:
        self.size = size


class Boundary(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Wraps every method of plait.v1; health and reflection pass untouched."""

    def __init__(
        self,
        limits: Limits,
        scopes: ScopeSettings,
        calls: Calls,
        patience: Patience,
        door: Door,
        audit: Audit | None = None,
    ) -> None:
        self._limits = limits
        self._patience = patience
        self._scopes = scopes
        self._calls = calls
        self._door = door
        self._audit = audit
        # By method: gRPC asks anew for each call, and its handlers never change.
        self._handlers: dict[str, Any] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        method = handler_call_details.method
        known = self._handlers.get(method)
        if known is not None:
            return known
        handler = await continuation(handler_call_details)
        if handler is None:
            return refusals.unknown(method, abort)
        if not method.startswith(PREFIX):
            return handler
        made = self._handlers[method] = self._wrapped(method, handler)
        return made

    def _wrapped(self, method: str, handler: Any) -> Any:
        parse = _tolerant(handler.request_deserializer, self._limits.message_bytes)
        serialize = _unless_bytes(handler.response_serializer)
        if not handler.request_streaming and not handler.response_streaming:
            return grpc.stream_unary_rpc_method_handler(
                self._unary(method, handler.unary_unary), parse, serialize
            )
        behaviour = (
            self._streams(method, handler.stream_stream)
            if handler.request_streaming
            else self._stream(method, handler.unary_stream)
        )
        return grpc.stream_stream_rpc_method_handler(behaviour, parse, serialize)

    def _unary(self, method: str, behaviour: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(requests: AsyncIterator[Any], context: Any) -> Any:
            one = self._calls.one()
            try:
                async with self._answered(method, context) as noted:
                    visit = await self._enter(method, context)
                    request = await self._door.request(visit, requests)
                    self._door.place(visit, context)
                    one.begin()
                    _refuse_malformed(request, self._limits.message_bytes)
                    noted.message(request)
                    deadline = self._limits.deadline(method, context)
                    work = behaviour(request, context)
                    response: Any = await self._patience.answer(method, deadline, work)
                    if method in WRITES:
                        failpoint.hit("answer.lost")
                    refusals.check_size("answer", _size(response), self._limits.message_bytes)
                    noted.message(response)
                self._door.answered(visit, context)
                return response
            finally:
                one.end()

        return call

    def _stream(
        self, method: str, behaviour: Callable[..., AsyncIterator[Any]]
    ) -> Callable[..., Any]:
        if method not in UNLIMITED:
            raise TypeError(f"{method} streams and has no entry in limits.UNLIMITED")

        async def call(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            async with self._answered(method, context) as noted:
                visit = await self._enter(method, context)
                request = await self._door.request(visit, requests)
                self._door.place(visit, context)
                with self._calls.stream():
                    _refuse_malformed(request, self._limits.message_bytes)
                    noted.message(request)
                    deadline = self._limits.stream_deadline(context)
                    source = behaviour(request, context)
                    async for response in self._patience.answers(method, deadline, source):
                        read = self._door.answered(visit, context)
                        yield response
                        read()

        return call

    def _streams(
        self, method: str, behaviour: Callable[..., AsyncIterator[Any]]
    ) -> Callable[..., Any]:
        """Messages both ways. A malformed one ends the stream, after the answers to those before it."""
        if method not in UNLIMITED:
            raise TypeError(f"{method} streams and has no entry in limits.UNLIMITED")

        async def call(messages: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            async with self._answered(method, context) as noted:
                visit = await self._enter(method, context)
                self._door.place(visit, context)
                requests = self._wellformed(self._door.requests(visit, messages), noted)
                with self._calls.stream():
                    deadline = self._limits.stream_deadline(context)
                    source = behaviour(requests, context)
                    async for response in self._patience.answers(method, deadline, source):
                        noted.message(response)
                        if method in WRITES:
                            failpoint.hit("answer.lost")
                        read = self._door.answered(visit, context)
                        yield response
                        read()

        return call

    async def _wellformed(self, requests: AsyncIterator[Any], noted: Noted) -> AsyncIterator[Any]:
        async for request in requests:
            _refuse_malformed(request, self._limits.message_bytes)
            noted.message(request)
            yield request

    async def _enter(self, method: str, context: Any) -> Visit:
        visit = await self._door.enter(method, context, self._limits.deadline(method, context))
        scope.tenant_of(context, self._scopes)  # refused here, for methods that have no tenant, too
        return visit

    def _answered(self, method: str, context: Any) -> _Answered:
        """Turn what the block raises into a status, log one line, and tell the audit log of what the block
        noted."""
        return _Answered(self, method, context)

    def tell_audit(self, noted: Noted, method: str, context: Any, code: str, reason: str) -> None:
        if self._audit is None:
            return
        try:
            tenant = scope.tenant_of(context, self._scopes)
        except PlaitError:  # the tenant itself is what is wrong
            tenant = ""
        noted.tell(
            self._audit,
            method=method,
            caller=current.caller().id,
            peer=self._door.peer(context),
            tenant=tenant,
            code=code,
            reason=reason,
        )

    def as_asked(self, exc: PlaitError, context: Any) -> PlaitError:
        """`exc` with the names that the caller knows."""
        try:
            return scope.error_out(scope.tenant_of(context, self._scopes), exc)
        except PlaitError:  # the tenant itself is what is wrong
            return exc


class _Answered:
    """As `Boundary._answered`. A class: a generator's context manager costs each call four times as much."""

    __slots__ = ("_boundary", "_context", "_method", "_noted", "_start")

    def __init__(self, boundary: Boundary, method: str, context: Any) -> None:
        self._boundary = boundary
        self._method = method
        self._context = context
        self._noted = Noted()

    async def __aenter__(self) -> Noted:
        self._start = perf_counter()
        current.answer(current.NO_ID)  # until the door has recognised who calls
        return self._noted

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        code, reason = "OK", ""
        try:
            match exc:
                case None:
                    pass
                case PlaitError():
                    code, reason = code_of(type(exc)).name, exc.reason
                    await abort(self._context, self._boundary.as_asked(exc, self._context))
                case asyncio.CancelledError() | GeneratorExit():
                    code = "CANCELLED"
                case Exception():  # the boundary: whatever it is, the caller gets a status
                    code, reason = "INTERNAL", "INTERNAL"
                    await abort(self._context, internal(exc, self._method))
        finally:
            self._tell(code, reason)

    def _tell(self, code: str, reason: str) -> None:
        took_ms = round((perf_counter() - self._start) * 1e3, 2)
        fields = {"method": _short(self._method), "code": code, "reason": reason}
        logger.info("rpc", extra={**fields, "took_ms": took_ms, "caller": current.caller().id})
        self._boundary.tell_audit(self._noted, self._method, self._context, code, reason)


async def abort(context: Any, exc: PlaitError) -> NoReturn:
    """End the call with the status of `exc`. Raises: grpc.aio.AbortError, always."""
    status = rpc_status.to_status(status_of(exc))
    await context.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort returned")


def _tolerant(deserialize: Callable[[bytes], Any], limit: int) -> Callable[[bytes], Any]:
    """A broken request is the caller's fault (INVALID_ARGUMENT); gRPC would say INTERNAL."""

    def parse(data: bytes) -> Any:
        if len(data) > limit:
            return TooLarge(len(data))
        try:
            return deserialize(data)
        except (DecodeError, UnicodeDecodeError):
            return Malformed()

    return parse


def _unless_bytes(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """`serialize`, but for answers that a method gives as the bytes of a message."""

    def give(response: Any) -> bytes:
        return response if type(response) is bytes else serialize(response)

    return give


def _size(response: Any) -> int:
    return len(response) if type(response) is bytes else int(response.ByteSize())


def _refuse_malformed(request: object, limit: int) -> None:
    if isinstance(request, TooLarge):
        refusals.check_size("request", request.size, limit)
    if isinstance(request, Malformed):
        raise RequestMalformed(
            "the request's bytes are no message of this method, or hold text that is not UTF-8; "
            "make them with stubs generated from proto/plait/v1"
        )


def _short(method: str) -> str:
    return method.removeprefix(PREFIX)
