"""What is refused before any method has seen it, with a reason that gRPC itself would leave out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from plait.domain.errors import MessageTooLarge, MethodUnknown, PlaitError


def unknown(method: str, abort: Callable[[Any, PlaitError], Awaitable[Any]]) -> Any:
    """A handler that refuses a method which no service has. Of any kind of call: the messages of a
    unary one are a stream of one."""

    async def refuse(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        await abort(context, MethodUnknown(method))
        yield b""

    return grpc.stream_stream_rpc_method_handler(refuse)


def check_size(what: str, size: int, limit: int) -> None:
    """Raises: MessageTooLarge."""
    if size > limit:
        raise MessageTooLarge(what, size, limit)
