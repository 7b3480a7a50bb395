"""The times of a request as the server reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plait.client import memory_wire
from server.grpc import times


def test_a_recorded_time_to_come_is_now_and_a_valid_one_stays() -> None:
    later = datetime.now(UTC) + timedelta(days=400)
    message = memory_wire.as_of(later, later)
    assert message is not None
    found = times.as_of(message)
    assert found.valid == later
    assert found.recorded is not None
    assert timedelta() <= datetime.now(UTC) - found.recorded < timedelta(minutes=1)


def test_a_past_recorded_time_is_the_one_asked_for() -> None:
    past = datetime(2026, 3, 1, tzinfo=UTC)
    message = memory_wire.as_of(None, past)
    assert message is not None
    assert times.as_of(message).recorded == past
