"""Messages and streams between a client and a server."""

from __future__ import annotations

from plait.domain.errors.families import Exhausted, InvalidInput, NotBuilt, OutOfTime, Unavailable


class RequestMalformed(InvalidInput):
    """The bytes are no message of the contract."""

    reason = "REQUEST_MALFORMED"


class StreamBroken(Unavailable):
    """The server ended a stream that was being written to; why is lost on the way."""

    reason = "STREAM_BROKEN"


class MethodUnknown(NotBuilt):
    """The server has no such method."""

    reason = "METHOD_UNKNOWN"

    def __init__(self, method: str) -> None:
        super().__init__(
            f"this server has no method {method[:200]!r}; the client and the server are of different "
            "versions (`plait version`), or the name is misspelled",
            method=method[:200],
        )


class MessageTooLarge(Exhausted):
    """A request or an answer is larger than `server.max_message_bytes`."""

    reason = "MESSAGE_TOO_LARGE"

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"the {what} has {size} bytes and may have {limit}; send or ask for less at a time, or raise "
            "`server.max_message_bytes`",
            size_bytes=size,
            limit_bytes=limit,
        )


class RequestTooSlow(OutOfTime):
    """The whole request did not arrive in time."""

    reason = "REQUEST_TOO_SLOW"


class TooManyCalls(Exhausted):
    """As many calls as may be are being answered."""

    reason = "TOO_MANY_CALLS"


class TooManyConnections(Exhausted):
    """The key has as many connections as one may have."""

    reason = "TOO_MANY_CONNECTIONS"
