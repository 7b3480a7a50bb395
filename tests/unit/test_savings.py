"""From counts to what is said: sums, the scale of usage, receipts, comparisons, and the plain words."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.savings import Basis, Comparison, Paid, SessionCounts, Side
from plait.memory.savings import MIN_SESSIONS, compare, report, session, totals
from plait.wire import savings
from server.commands import savings as command

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def counts(key: str = "s", repo: str = "shop", **more: Any) -> SessionCounts:
    told: dict[str, Any] = {"episodes": 1, "calls": 3, "began": NOON, "ended": NOON, **more}
    return SessionCounts(repo, key, **told)


paid = st.builds(Paid, *[st.integers(0, 10**13)] * 3)
any_counts = st.builds(
    SessionCounts,
    repo=st.sampled_from(["a", "b"]),
    session_key=st.text(max_size=3),
    began=st.none() | st.just(NOON),
    ended=st.none() | st.just(NOON),
    episodes=st.integers(0, 2),
    not_counted=st.integers(0, 1),
    edited_files=st.integers(0, 9),
    calls=st.integers(0, 9),
    plait=paid,
    searched=paid,
    read=paid,
    sent=st.integers(0, 10**13),
    sent_calls=st.integers(0, 9),
    grown=st.integers(0, 10**13),
    grown_counted=st.integers(0, 10**13),
    receipts=st.integers(0, 3),
    receipt_tokens=st.integers(0, 999),
)


@given(st.lists(any_counts, max_size=12), st.integers(0, 12))
def test_sums_of_two_parts_are_those_of_the_whole(found: list[SessionCounts], at: int) -> None:
    told = [session(one) for one in found]
    whole, left, right = totals(told), totals(told[:at]), totals(told[at:])
    assert whole.plait == left.plait + right.plait
    assert whole.explored == left.explored + right.explored
    assert whole.sent == left.sent + right.sent
    assert whole.sessions == left.sessions + right.sessions


@given(st.lists(any_counts, max_size=12), st.randoms())
def test_the_order_of_sessions_does_not_matter(
    found: list[SessionCounts], shuffle: random.Random
) -> None:
    mixed = list(found)
    shuffle.shuffle(mixed)
    before, after = report(found, 20), report(mixed, 20)
    assert before.total == after.total
    assert before.comparisons == after.comparisons


@given(st.lists(any_counts, max_size=5))
def test_a_report_comes_over_the_wire_as_it_was(found: list[SessionCounts]) -> None:
    told = report(found, 3, cut=True)
    message = savings.response(told)
    assert savings.savings_of(type(message).FromString(message.SerializeToString())) == told


SCALES = [
    ({"grown": 1_300, "grown_counted": 1_000}, Basis.USAGE, 130),
    ({"grown": 2_000, "grown_counted": 2_000}, Basis.USAGE, 100),
    ({"grown": 999, "grown_counted": 999}, Basis.COUNTED, 100),  # too little to rest on
    ({"grown": 100_000, "grown_counted": 2_000}, Basis.COUNTED, 100),  # not of the same texts
    ({"grown": 0, "grown_counted": 2_000}, Basis.COUNTED, 100),
    ({}, Basis.COUNTED, 100),
    ({"grown": 1_300, "grown_counted": 1_000, "not_counted": 1}, Basis.NOT_COUNTED, 130),
]


@pytest.mark.parametrize(("given_", "basis", "tokens"), SCALES)
def test_usage_scales_what_was_counted(given_: dict[str, Any], basis: Basis, tokens: int) -> None:
    told = session(counts(plait=Paid(1, 100, 200), read=Paid(1, 100, 0), **given_))
    assert (told.basis, told.plait.tokens, told.read.tokens) == (basis, tokens, tokens)


def test_receipts_count_only_where_no_transcript_shows_an_answer() -> None:
    both = session(counts(plait=Paid(2, 50, 70), receipts=2, receipt_tokens=50))
    assert both.plait == Paid(2, 50, 70)
    assert both.again_known
    hidden = session(counts(receipts=2, receipt_tokens=50))
    assert hidden.plait == Paid(2, 50, 0)
    assert not hidden.again_known
    alone = session(counts(episodes=0, calls=0, receipts=2, receipt_tokens=50))
    assert alone.basis is Basis.RECEIPTS
    assert totals([both, hidden, alone]).plait == Paid(6, 150, 70)


def test_shares_are_only_of_sessions_whose_usage_tells_both() -> None:
    grown: dict[str, Any] = {"grown": 2_000, "grown_counted": 1_000, "sent": 9_000}
    whole = session(counts(plait=Paid(1, 10, 90), sent_calls=3, **grown))
    gap = session(counts(plait=Paid(1, 10, 90), sent_calls=2, **grown))
    unscaled = session(counts(plait=Paid(1, 10, 90), sent=9_000, sent_calls=3))
    told = totals([whole, gap, unscaled])
    assert (told.sent, told.sent_sessions, told.sent_plait) == (9_000, 1, 200)


def side(n: int, with_plait: int, explored: int, **more: Any) -> list[SessionCounts]:
    plait = Paid(1, with_plait, 0) if with_plait else Paid()
    return [counts(f"{with_plait}-{i}", plait=plait, read=Paid(1, explored, 0), **more) for i in range(n)]  # fmt: skip


ESTIMATES = [
    (MIN_SESSIONS, MIN_SESSIONS, 100, 400, 1_000, 500.0),
    (MIN_SESSIONS, MIN_SESSIONS, 900, 400, 1_000, -300.0),  # it may be negative, and is told
    (MIN_SESSIONS, MIN_SESSIONS, 600, 400, 1_000, 0.0),
    (MIN_SESSIONS - 1, 50, 100, 400, 1_000, None),
    (50, MIN_SESSIONS - 1, 100, 400, 1_000, None),
    (0, 50, 100, 400, 1_000, None),
]


@pytest.mark.parametrize(("with_", "without", "cost", "explored", "alone", "saved"), ESTIMATES)
def test_savings_are_estimated_only_where_both_sides_have_sessions(
    with_: int, without: int, cost: int, explored: int, alone: int, saved: float | None
) -> None:
    found = [*side(with_, cost, explored, edited_files=2), *side(without, 0, alone)]
    (one,) = report(found, 1).comparisons
    assert (one.with_plait.sessions, one.without.sessions) == (with_, without)
    assert one.saved == saved
    assert one.with_plait.editing == with_
    assert one.without.explored_per_file == 0


def test_what_is_not_counted_is_not_compared() -> None:
    told = [
        session(counts("old", not_counted=1)),
        session(counts("receipts", episodes=0, calls=0, receipts=1)),
        session(counts("silent", calls=0)),
        session(counts("unseen", receipts=1, receipt_tokens=9)),
        session(counts("whole")),
    ]
    (one,) = compare(told)
    assert one.with_plait.sessions + one.without.sessions == 1


def test_the_newest_sessions_are_listed_and_all_are_summed() -> None:
    found = [counts(f"s{i}", ended=NOON + timedelta(hours=i), read=Paid(1, 1, 0)) for i in range(5)]
    told = report(found, 2)
    assert [one.session_key for one in told.sessions] == ["s4", "s3"]
    assert told.total.read == Paid(5, 5, 0)


@pytest.mark.parametrize(
    ("saved", "words"),
    [
        (1234.4, "saves about 1,234 tokens a session"),
        (-1234.4, "costs about 1,234 tokens a session more than it saves"),
        (0.3, "neither saves nor costs"),
        (None, "not enough sessions to compare, 7 with Plait and 2 without; 5 of each"),
    ],
)
def test_the_estimate_is_said_in_plain_words(saved: float | None, words: str) -> None:
    one = Comparison("shop", Side(7, 1, 10, 5), Side(2), saved, 5)
    told = replace(report([counts()], 1), comparisons=(one,))
    (line,) = [line for line in command.notes(told) if line.startswith("shop")]
    assert words in line
    assert saved is None or "an estimate" in line
