"""The times of a read ↔ messages."""

from __future__ import annotations

from datetime import UTC, datetime

from plait import settings
from plait.domain.errors import InvalidInput
from plait.domain.memory import NOW, AsOf
from plait.domain.options import SearchOptions, When
from plait.domain.values import Filter
from plait.v1 import types_pb2
from plait.wire import scalars


def as_of(valid: When, recorded: When) -> types_pb2.AsOf | None:
    """What a read is asked for, with this process's clock and zone for the words in it."""
    if valid is None and recorded is None:
        return None
    return types_pb2.AsOf(
        valid=point(valid),
        recorded=point(recorded),
        caller_time=scalars.timestamp(datetime.now(UTC)),
        time_zone=settings.time_zone(),
    )


def of_read(where: Filter | None, options: SearchOptions) -> types_pb2.AsOf | None:
    """The times of `options`; where they give none, those of `where`."""
    times = where.as_of if where else NOW
    valid, recorded = options.valid_as_of, options.recorded_as_of
    return as_of(
        times.valid if valid is None else valid, times.recorded if recorded is None else recorded
    )


def point(when: When) -> types_pb2.TimePoint | None:
    if when is None:
        return None
    if isinstance(when, str):
        return types_pb2.TimePoint(words=when)
    if not isinstance(when, datetime):
        raise InvalidInput(
            f"a time is {when!r}; give a datetime, words for one, or None", field="as_of"
        )
    return types_pb2.TimePoint(time=scalars.timestamp(when))


def point_of(message: types_pb2.TimePoint) -> When:
    """Raises: ValueError, outside the years 1 to 9999."""
    match message.WhichOneof("kind"):
        case "time":
            return scalars.datetime_of(message.time)
        case "words":
            return message.words
    return None


def resolved(value: AsOf) -> types_pb2.ResolvedAsOf | None:
    if not value:
        return None
    return types_pb2.ResolvedAsOf(
        valid=scalars.timestamp(value.valid), recorded=scalars.timestamp(value.recorded)
    )


def resolved_of(message: types_pb2.ResolvedAsOf) -> AsOf:
    return AsOf(
        valid=scalars.optional_time(message, "valid"),
        recorded=scalars.optional_time(message, "recorded"),
    )
