"""Times, JSON, vectors and durations ↔ messages."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.struct_pb2 import Value as StructValue
from google.protobuf.timestamp_pb2 import Timestamp

# Whole numbers up to here are the same number as a double; protobuf's Struct has doubles only.
_EXACT = 2**53


def timestamp(time: datetime | None) -> Timestamp | None:
    """Microseconds survive; `time` must know its offset."""
    if time is None:
        return None
    out = Timestamp()
    out.FromDatetime(time.astimezone(UTC))
    return out


def datetime_of(message: Timestamp) -> datetime:
    """Raises: ValueError, outside the years 1 to 9999."""
    return message.ToDatetime(tzinfo=UTC)


def struct(data: Mapping[str, Any]) -> Struct:
    out = Struct()
    out.update(_jsonable(data))
    return out


def _jsonable(value: Any) -> Any:
    """What Struct takes: stores may hand out times, ids and tuples in `meta`."""
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


def dict_of(message: Struct) -> dict[str, Any]:
    """Whole numbers come back as `int`."""
    return {key: _json_of(value) for key, value in message.fields.items()}


def _json_of(value: StructValue) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return dict_of(value.struct_value)
    if kind == "list_value":
        return [_json_of(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) <= _EXACT else number
    return None if kind in (None, "null_value") else getattr(value, kind)


def vector(values: Sequence[float] | None) -> bytes:
    """float32, little endian; empty for none."""
    if values is None:
        return b""
    out = array("f", values)
    if sys.byteorder == "big":
        out.byteswap()
    return out.tobytes()


def vector_of(data: bytes) -> tuple[float, ...] | None:
    """Raises: ValueError, for a number of bytes that is no multiple of 4."""
    if not data:
        return None
    out = array("f")
    out.frombytes(data)
    if sys.byteorder == "big":
        out.byteswap()
    return tuple(out)


def duration(seconds: float) -> Duration:
    out = Duration()
    out.FromTimedelta(timedelta(seconds=seconds))
    return out


def seconds_of(message: Duration) -> float:
    return message.seconds + message.nanos / 1e9


def optional_time(message: Message, field: str) -> datetime | None:
    """The instant in a field that may be unset. Raises: ValueError, outside the years 1 to 9999."""
    return datetime_of(getattr(message, field)) if message.HasField(field) else None
