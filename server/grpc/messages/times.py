"""The times a read is asked for → instants: exact ones checked, words read against the caller's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from plait.domain.memory import NOW, AsOf
from plait.text import time_expressions
from plait.v1 import types_pb2
from plait.wire import scalars
from server.grpc.messages import parse

# Room for every zone's offset inside the years that times can have.
EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
LATEST = datetime(9999, 12, 29, tzinfo=UTC)


def as_of(message: types_pb2.AsOf, at: str = "as_of") -> AsOf:
    """Raises: InvalidInput, TimeNotUnderstood. Nothing set: `NOW`."""
    now = datetime.now(UTC)
    if message.HasField("caller_time"):
        now = _instant(message.caller_time, f"{at}.caller_time")
    zone = message.time_zone
    parse.text(zone, f"{at}.time_zone", parse.MAX_NAME_BYTES)
    clock = _Clock(now, zone, at)
    valid = clock.read(message.valid, "valid") if message.HasField("valid") else None
    recorded = clock.read(message.recorded, "recorded") if message.HasField("recorded") else None
    return AsOf(valid, recorded) if valid or recorded else NOW


class _Clock:
    def __init__(self, now: datetime, zone: str, at: str) -> None:
        self._now = now
        self._zone = time_expressions.zone_of(zone, f"{at}.time_zone")
        self._at = at

    def read(self, point: types_pb2.TimePoint, name: str) -> datetime:
        at = f"{self._at}.{name}"
        match point.WhichOneof("kind"):
            case "time":
                return _instant(point.time, f"{at}.time")
            case "words":
                found = time_expressions.resolve(point.words, self._now, self._zone, f"{at}.words")
                return _in_range(found, f"{at}.words")
        raise parse.bad(at, "is empty; set time or words, or leave it out for now")


def _instant(message: Timestamp, at: str) -> datetime:
    parse.time(message, at)
    return _in_range(scalars.datetime_of(message), at)


def _in_range(value: datetime, at: str) -> datetime:
    if not EARLIEST <= value <= LATEST:
        raise parse.bad(at, "is outside the years 1 to 9999; name a time inside them")
    return value.astimezone(UTC)
