"""Times in words: the table, the changes of clocks, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.errors import InvalidInput, TimeNotUnderstood
from plait.text.time_expressions import MAX_WORDS, resolve, zone_of
from tests.timewords_table import BERLIN, CASES, DST, NOW

BASE = datetime.fromisoformat(NOW)


def meant(text: str, zone: tzinfo) -> datetime:
    """`2026-03-18T00:00|` is the last microsecond before it."""
    time = datetime.fromisoformat(text.removesuffix("|"))
    aware = time if time.tzinfo else time.replace(tzinfo=zone)
    return aware.astimezone(UTC) - timedelta(microseconds=text.endswith("|"))


@pytest.mark.parametrize(("words", "expected"), [c for c in CASES if c[1] is not None])
def test_words_mean(words: str, expected: str) -> None:
    zone = zone_of(BERLIN)
    assert resolve(words, BASE, zone).astimezone(UTC) == meant(expected, zone)


@pytest.mark.parametrize("words", [words for words, expected in CASES if expected is None])
def test_words_that_name_no_one_time_are_refused_with_examples(words: str) -> None:
    with pytest.raises(TimeNotUnderstood, match="last Tuesday") as caught:
        resolve(words, BASE, zone_of(BERLIN), "as_of.valid.words")
    assert caught.value.field == "as_of.valid.words"


@pytest.mark.parametrize(("words", "now", "name", "expected"), DST)
def test_clocks_that_change(words: str, now: str, name: str, expected: str) -> None:
    zone = zone_of(name)
    got = resolve(words, datetime.fromisoformat(now), zone)
    assert got.astimezone(UTC) == meant(expected, zone)


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(CASES) + len(DST) >= 60
    assert len({words for words, _ in CASES}) == len(CASES)


@pytest.mark.parametrize("name", ["", "UTC", "Europe/Berlin", "+02:00", "-0330", "Etc/GMT+5"])
def test_zones_by_name_and_by_offset(name: str) -> None:
    assert BASE.astimezone(zone_of(name)) == BASE


@pytest.mark.parametrize(
    "name", ["Mars/Base", "../../etc/passwd", "/etc/localtime", "+25:00", "a" * 300, "Europe", "\0"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="Europe/Berlin"):
        zone_of(name)


@given(st.text(max_size=MAX_WORDS + 5))
def test_any_text_is_a_time_or_refused(words: str) -> None:
    try:
        got = resolve(words, BASE, zone_of(BERLIN))
    except TimeNotUnderstood:
        return
    assert got.tzinfo is not None


PIECES = st.sampled_from(
    [
        *(
            "last",
            "this",
            "next",
            "end",
            "of",
            "start",
            "the",
            "before",
            "a",
            "couple",
            "half",
            "an",
        ),
        *("Tuesday", "March", "29", "2026", "2026-02-30", "Q1", "14:00", "noon", "morning", "UTC"),
        *(
            "day",
            "week",
            "month",
            "year",
            "days",
            "hour",
            "years",
            "ago",
            "3",
            "99999",
            "yesterday",
        ),
        "+02:00",
    ]
)


@given(st.lists(PIECES, max_size=7).map(" ".join), st.sampled_from([c[2] for c in DST]))
def test_any_order_of_known_words_is_a_time_or_refused(words: str, name: str) -> None:
    try:
        got = resolve(words, BASE, zone_of(name))
    except TimeNotUnderstood:
        return
    assert got.tzinfo is not None


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2050, 1, 1)), st.sampled_from([c[2] for c in DST])
)
def test_a_past_period_ends_before_now(wall: datetime, name: str) -> None:
    now = wall.replace(tzinfo=UTC)
    for words in (
        "yesterday",
        "last week",
        "last Tuesday",
        "last month",
        "last March",
        "last year",
    ):
        assert resolve(words, now, zone_of(name)) < now
    for words in ("Tuesday", "March 3", "18:00", "March", "February 29", "Tuesday at noon"):
        assert resolve(words, now, zone_of(name)) <= now
