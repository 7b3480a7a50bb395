"""The root, and a family for each canonical gRPC code."""

from __future__ import annotations

from typing import ClassVar


class PlaitError(Exception):
    """Root of all deliberate errors. Subclasses set `reason` (UPPER_SNAKE_CASE)."""

    reason: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        self.metadata: dict[str, str] = {k: str(v) for k, v in metadata.items()}


class InvalidInput(PlaitError):
    """The request can never succeed as written (INVALID_ARGUMENT)."""

    reason = "INVALID_INPUT"

    def __init__(self, message: str, *, field: str = "", **metadata: object) -> None:
        super().__init__(message, **metadata)
        self.field = field  # the request field at fault, for BadRequest


class NotFound(PlaitError):
    """What was named does not exist (NOT_FOUND)."""

    reason = "NOT_FOUND"


class Conflict(PlaitError):
    """What was named exists already and differs (ALREADY_EXISTS)."""

    reason = "CONFLICT"


class Precondition(PlaitError):
    """The request is valid, the state is not; the message gives the change (FAILED_PRECONDITION)."""

    reason = "PRECONDITION"


class Busy(PlaitError):
    """A concurrent operation is in the way; try again (ABORTED)."""

    reason = "BUSY"


class Exhausted(PlaitError):
    """A limit, a disk or a quota is full (RESOURCE_EXHAUSTED)."""

    reason = "EXHAUSTED"


class Forbidden(PlaitError):
    """Refused by a rule that the caller cannot change (PERMISSION_DENIED)."""

    reason = "FORBIDDEN"


class Unauthenticated(PlaitError):
    """The caller is unknown (UNAUTHENTICATED)."""

    reason = "UNAUTHENTICATED"


class Unavailable(PlaitError):
    """A part Plait depends on does not answer; try again (UNAVAILABLE)."""

    reason = "UNAVAILABLE"


class OutOfTime(PlaitError):
    """The deadline passed (DEADLINE_EXCEEDED)."""

    reason = "OUT_OF_TIME"


class NotBuilt(PlaitError):
    """Declared in the contract, not built yet (UNIMPLEMENTED)."""

    reason = "NOT_BUILT"


class Internal(PlaitError):
    """A fault of Plait itself (INTERNAL). The log of the server has the details."""

    reason = "INTERNAL"
