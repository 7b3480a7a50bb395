"""The one place where a call enters and leaves: deadline, errors, log line, and who is in flight.

An interceptor, so that services are plain coroutines that return a message or raise a `PlaitError`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from plait.domain import failpoint
from plait.domain.errors import PlaitError, RequestMalformed
from plait.settings import ScopeSettings
from server.app import Calls
from server.grpc import refusals, scope
from server.grpc.deadlines import Patience
from server.grpc.errors import code_of, internal, status_of
from server.grpc.limits import UNLIMITED, Limits

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
        self, limits: Limits, scopes: ScopeSettings, calls: Calls, patience: Patience
    ) -> None:
        self._limits = limits
        self._patience = patience
        self._scopes = scopes
        self._calls = calls

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None:
            return refusals.unknown(method, abort)
        if not method.startswith(PREFIX):
            return handler
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                self._streams(method, handler.stream_stream),
                request_deserializer=_tolerant(
                    handler.request_deserializer, self._limits.message_bytes
                ),
                response_serializer=handler.response_serializer,
            )
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                self._stream(method, handler.unary_stream),
                request_deserializer=_tolerant(
                    handler.request_deserializer, self._limits.message_bytes
                ),
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_unary_rpc_method_handler(
            self._unary(method, handler.unary_unary),
            request_deserializer=_tolerant(
                handler.request_deserializer, self._limits.message_bytes
            ),
            response_serializer=handler.response_serializer,
        )

    def _unary(self, method: str, behaviour: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def call(request: Any, context: Any) -> Any:
            with self._calls.one():
                return await answer(request, context)

        async def answer(request: Any, context: Any) -> Any:
            async with self._answered(method, context):
                self._limits.check_room(self._calls.in_flight + self._calls.streams)
                deadline = self._limits.deadline(method, context)
                _refuse_malformed(request, self._limits.message_bytes)
                response: Any = await self._patience.answer(
                    method, deadline, behaviour(request, context)
                )
                if method in WRITES:
                    failpoint.hit("answer.lost")
                refusals.check_size("answer", response.ByteSize(), self._limits.message_bytes)
                return response

        return call

    def _stream(
        self, method: str, behaviour: Callable[..., AsyncIterator[Any]]
    ) -> Callable[..., Any]:
        if method not in UNLIMITED:
            raise TypeError(f"{method} streams and has no entry in limits.UNLIMITED")

        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._calls.stream():
                async with self._answered(method, context):
                    self._limits.check_room(self._calls.in_flight + self._calls.streams)
                    _refuse_malformed(request, self._limits.message_bytes)
                    deadline = self._limits.stream_deadline(context)
                    source = behaviour(request, context)
                    async for response in self._patience.answers(method, deadline, source):
                        yield response

        return call

    def _streams(
        self, method: str, behaviour: Callable[..., AsyncIterator[Any]]
    ) -> Callable[..., Any]:
        """Messages both ways. A malformed one ends the stream, after the answers to those before it."""
        if method not in UNLIMITED:
            raise TypeError(f"{method} streams and has no entry in limits.UNLIMITED")

        async def call(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            with self._calls.stream():
                async with self._answered(method, context):
                    self._limits.check_room(self._calls.in_flight + self._calls.streams)
                    deadline = self._limits.stream_deadline(context)
                    source = behaviour(_wellformed(requests, self._limits.message_bytes), context)
                    async for response in self._patience.answers(method, deadline, source):
                        if method in WRITES:
                            failpoint.hit("answer.lost")
                        yield response

        return call

    @asynccontextmanager
    async def _answered(self, method: str, context: Any) -> AsyncIterator[None]:
        """Turn what the block raises into a status, and log one line."""
        start = perf_counter()
        code, reason = "OK", ""
        try:
            yield
        except PlaitError as exc:
            code, reason = code_of(type(exc)).name, exc.reason
            await abort(context, self._as_asked(exc, context))
        except (asyncio.CancelledError, GeneratorExit):
            code = "CANCELLED"
            raise
        except Exception as exc:  # the boundary: whatever it is, the caller gets a status
            code, reason = "INTERNAL", "INTERNAL"
            await abort(context, internal(exc, method))
        finally:
            took_ms = round((perf_counter() - start) * 1e3, 2)
            fields = {"method": _short(method), "code": code, "reason": reason, "took_ms": took_ms}
            logger.info("rpc", extra=fields)

    def _as_asked(self, exc: PlaitError, context: Any) -> PlaitError:
        """`exc` with the names that the caller knows."""
        try:
            return scope.error_out(scope.tenant_of(context, self._scopes), exc)
        except PlaitError:  # the tenant itself is what is wrong
            return exc


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


async def _wellformed(requests: AsyncIterator[Any], limit: int) -> AsyncIterator[Any]:
    async for request in requests:
        _refuse_malformed(request, limit)
        yield request


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
