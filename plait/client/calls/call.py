"""A call as a value, which both clients send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from google.protobuf.message import Message

T = TypeVar("T")

TENANT_KEY = "plait-tenant"  # of the metadata


def metadata(tenant: str) -> tuple[tuple[str, str], ...]:
    """What every call of a client carries beside its request."""
    return ((TENANT_KEY, tenant),) if tenant else ()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """`retry`: reading, or made safe by a request id, so it may be sent again when UNAVAILABLE."""

    service: str
    method: str
    request: Message
    response: type[Message]
    decode: Callable[[Any], T]
    timeout_s: float
    retry: bool = True

    @property
    def path(self) -> str:
        package = "" if "." in self.service else "plait.v1."
        return f"/{package}{self.service}/{self.method}"
