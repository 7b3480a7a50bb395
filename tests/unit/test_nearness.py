"""The time that a question names, and how near an item's writer is to who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.query.code_references import Span
from plait.retrieval.query.nearness import in_scope, in_time, span
from plait.retrieval.ranking.weights import DEFAULT

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday


def day(year: int, month: int, number: int) -> datetime:
    return datetime(year, month, number, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("what did we change last week?", day(2026, 11, 11), day(2026, 11, 18)),
        ("what failed yesterday", day(2026, 11, 19), day(2026, 11, 18)),
        ("what was done since Tuesday", day(2026, 11, 18), day(2026, 11, 16)),
        ("what did we know before 2026-03-01?", day(2026, 2, 1), day(2026, 3, 2)),
        ("the outage in March", day(2026, 3, 15), day(2026, 4, 2)),
        ("what we decided two weeks ago", day(2026, 11, 7), day(2026, 11, 19)),
        ("the incident of May 3", day(2026, 5, 3), day(2026, 5, 5)),
        ("what happened in 2025", day(2025, 6, 1), day(2026, 1, 2)),
        ("a couple of days ago it worked", day(2026, 11, 18), day(2026, 11, 1)),
    ],
)
def test_a_time_in_words(text: str, inside: datetime, outside: datetime) -> None:
    found = span(text, NOW)
    assert found is not None
    assert found.start <= inside <= found.end
    assert not found.start <= outside <= found.end


@pytest.mark.parametrize(
    "text",
    [
        "how does the scheduler pick a job?",
        "may we march on",
        "the sun is up, mon ami",
        "retry the last request",
        "error in line 2025 of it",
        "the last element of this list",
        "sort by date in seconds",
        "",
    ],
)
def test_words_that_name_no_time(text: str) -> None:
    assert span(text, NOW) is None


@given(st.text(alphabet="last week ago 0123-since on may", max_size=200))
def test_any_text_is_read(text: str) -> None:
    found = span(text, NOW)
    assert found is None or found.start <= found.end


def place(at: datetime | None, agent: str = "", session: str = "") -> Place:
    return Place(
        "r", Collection.MEMORIES, "", "", "note", False, ts=at, agent_id=agent, session_key=session
    )


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


def test_items_of_another_time_weigh_less() -> None:
    places = {
        n(1): place(day(2026, 11, 11)),
        n(2): place(day(2026, 10, 1)),
        n(3): place(None),
        n(4): place(day(2026, 11, 15) + timedelta(hours=10)),  # the zone is not known
    }
    named = Span(day(2026, 11, 9), day(2026, 11, 15))
    assert in_time(places, named) == {n(2): DEFAULT.memories.outside_time}
    assert in_time(places, None) == {}


def test_what_was_before_has_no_beginning() -> None:
    found = span("before 2026-03-01", NOW)
    assert in_time({n(1): place(day(1971, 1, 1))}, found) == {}


def test_the_chain_from_session_to_repository() -> None:
    places = {
        n(1): place(None, "me", "s1"),
        n(2): place(None, "me", "s0"),
        n(3): place(None),
        n(4): place(None, "other", "s9"),
    }
    assert in_scope(places, "s1", "me") == {
        n(1): DEFAULT.memories.same_session,
        n(4): DEFAULT.memories.other_agent,
    }
    assert in_scope(places, "s1", "") == {n(1): DEFAULT.memories.same_session}
    assert in_scope(places, "", "") == {}
