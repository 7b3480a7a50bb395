"""Feedback: who gets which share of a report, and how far it may move a score."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.errors import InvalidInput
from plait.domain.recall import Evidence, Feedback, ItemVerdict, RecallId, Receipt, Share, Verdict
from plait.domain.values import ItemId, Outcome
from plait.retrieval.ranking import feedback as fb


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


RECEIPT = Receipt(
    RecallId(UUID(int=1)), "default", ("r",), "s", "a", {}, {}, datetime(2026, 1, 1, tzinfo=UTC),
    ((n(1), 0.9), (n(2), 0.6), (n(3), 0.3), (n(4), 0.0)),
)  # fmt: skip
NOTHING = Feedback("x", b"", RECEIPT.id)
weights = st.floats(0, 1e6, allow_nan=False)


@given(weights, weights, st.floats(0, 0.15))
def test_a_factor_stays_inside_its_bound(helped: float, harmed: float, bound: float) -> None:
    factor = fb.factor(Evidence(helped, harmed), bound)
    assert 1 - bound <= factor <= 1 + bound
    assert fb.factor(Evidence(harmed, helped), bound) == pytest.approx(2 - factor)


@given(weights, weights, st.floats(0.01, 100))
def test_more_help_never_lowers_a_factor(helped: float, harmed: float, more: float) -> None:
    less = fb.factor(Evidence(helped, harmed), 0.15)
    assert fb.factor(Evidence(helped + more, harmed), 0.15) >= less
    assert fb.factor(Evidence(helped, harmed + more), 0.15) <= less


def test_one_verdict_moves_a_factor_by_a_fifth_of_the_bound() -> None:
    assert fb.factor(Evidence(), 0.15) == 1.0
    assert fb.factor(Evidence(helped=1.0), 0.15) == pytest.approx(1.03)
    assert fb.factor(Evidence(harmed=1.0), 0.15) == pytest.approx(0.97)


def test_an_outcome_is_small_and_goes_by_score() -> None:
    proven = replace(NOTHING, outcome=Outcome("success"), proof=("t",))
    told = fb.attribute(proven, RECEIPT)
    assert [s.item_id for s in told.shares] == [n(1), n(2), n(3)]
    assert sum(s.helped for s in told.shares) == pytest.approx(fb.WEIGHTS.success)
    assert told.shares[0].helped == pytest.approx(3 * told.shares[2].helped)
    assert told.attributed == 3
    alone = fb.attribute(replace(proven, proof=()), RECEIPT)
    assert sum(s.helped for s in alone.shares) == pytest.approx(
        fb.WEIGHTS.success * fb.WEIGHTS.unproven
    )
    failed = fb.attribute(replace(proven, outcome=Outcome("failure")), RECEIPT)
    assert sum(s.harmed for s in failed.shares) == pytest.approx(fb.WEIGHTS.failure)
    for status in ("partial", "unknown"):
        assert fb.attribute(replace(proven, outcome=Outcome(status)), RECEIPT).shares == ()


def test_verdicts_keep_their_items_out_of_the_outcome() -> None:
    verdicts = [
        ItemVerdict(n(1), Verdict.UNUSED),
        ItemVerdict(n(2), Verdict.HARMED, "why"),
        ItemVerdict(n(9), Verdict.HELPED),
    ]
    told = fb.attribute(replace(NOTHING, verdicts=verdicts, outcome=Outcome("success")), RECEIPT)
    assert (told.accepted, told.unknown, told.attributed) == (2, (n(9),), 1)
    assert told.shares[:2] == (
        Share(n(1), 0.0, fb.WEIGHTS.unused, True),
        Share(n(2), 0.0, 1.0, True, "why"),
    )
    assert told.shares[2].item_id == n(3)


HELPED = [ItemVerdict(n(1), Verdict.HELPED)]


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (NOTHING, "says nothing"),
        (replace(NOTHING, verdicts=HELPED * 2), "two verdicts"),
        (replace(NOTHING, verdicts=HELPED, request_id=""), "request_id"),
        (replace(NOTHING, verdicts=HELPED, request_id="a\0"), "NUL"),
        (replace(NOTHING, outcome=Outcome("great")), r"outcome\.status"),
        (replace(NOTHING, verdicts=HELPED, proof=("t",) * 101), "at most 100"),
        (replace(NOTHING, verdicts=HELPED, proof=("ä" * 257,)), "512 bytes"),
        (replace(NOTHING, verdicts=[replace(HELPED[0], comment="x" * 4097)]), "4096"),
        (replace(NOTHING, verdicts=[ItemVerdict(n(i), Verdict.HELPED) for i in range(501)]), "500"),
    ],
)
def test_bad_reports_are_refused(said: Feedback, match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        fb.check(said)


def test_a_good_report_passes() -> None:
    fb.check(replace(NOTHING, verdicts=HELPED, outcome=Outcome("success"), proof=("a::b",)))
