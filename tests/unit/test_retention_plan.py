"""What retention closes and why: laws over random scopes, and single cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from plait.domain.memory import MemoryEntry, MemoryId, MemoryMetadata
from plait.domain.retention import Action, CompactionPlan, Summary
from plait.memory import retention
from plait.settings import MemorySettings
from plait.text.token_count import count

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SMALL = MemorySettings(budget_tokens=400, summary_tokens=40, pin_recent=2)
WORDS = "parser cache retry queue lock index graph fail pass because fixed src/app.py 42 7 not"


def entry(
    n: int,
    content: str,
    *,
    days: float = 0.0,
    importance: float = 0.5,
    session: str = "",
    tags: tuple[str, ...] = (),
    **more: Any,
) -> MemoryEntry:
    at = NOW - timedelta(days=days)
    custom = more.pop("custom", {})
    meta = MemoryMetadata(session_key=session, tags=tags, importance=importance, custom=custom)
    given_ = {"created_at": at, "updated_at": at, "tokens": count(content), **more}
    return MemoryEntry(MemoryId(UUID(int=n + 1)), "r", "a", content, meta, **given_)


def close(entries: Sequence[MemoryEntry], **more: Any) -> CompactionPlan:
    return retention.plan(entries, SMALL, NOW, forced=True, **more)


def closed(plan: CompactionPlan) -> dict[int, Action]:
    return {step.entry_id.int - 1: step.action for step in plan.closed}


@st.composite
def scopes(draw: st.DrawFn) -> list[MemoryEntry]:
    out = []
    for n in range(draw(st.integers(0, 30))):
        text = " ".join(draw(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=40)))
        valid_to = draw(st.sampled_from([None, None, None, NOW + timedelta(days=1)]))
        out.append(
            entry(
                n,
                text,
                days=draw(st.integers(0, 200)),
                importance=draw(st.sampled_from([0.1, 0.5, 0.95])),
                session=draw(st.sampled_from(["", "s", "t"])),
                tags=draw(st.sampled_from([(), ("success",), ("failure",), ("x",)])),
                path=draw(st.sampled_from(["", "", "src/app.py"])),
                pinned=draw(st.integers(0, 9)) == 0,
                valid_to=valid_to,
            )
        )
    return out


@profile(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(scopes(), st.booleans())
def test_the_laws_of_a_plan(entries: list[MemoryEntry], forced: bool) -> None:
    plan = retention.plan(entries, SMALL, NOW, repo="r", agent_id="a", forced=forced)
    again = retention.plan(entries[::-1], SMALL, NOW, repo="r", agent_id="a", forced=forced)
    assert plan == again, "the order in which memories come does not matter"
    by_id = {e.id: e for e in entries}
    gone = [step.entry_id for step in plan.closed]
    assert len(gone) == len(set(gone)), "nothing is closed twice"
    pins = retention.pinned(entries, SMALL.pin_recent)
    assert not pins.keys() & set(gone), "what is pinned stays"
    assert all(step.reason for step in plan.steps)
    assert plan.tokens_before == sum(e.tokens for e in entries)
    after = retention.apply(plan, entries, NOW)
    assert plan.tokens_after == sum(e.tokens for e in after) <= plan.tokens_before
    stand_ins = {e.id for e in after}
    for step in plan.closed:
        assert step.into in stand_ins, "what stands for another is there"
        assert step.version == by_id[step.entry_id].version
        if step.action is Action.DEDUPLICATE:
            kept = by_id[MemoryId(step.into)]
            same = by_id[step.entry_id]
            assert (kept.agent_id, kept.path, kept.symbol) == (
                same.agent_id,
                same.path,
                same.symbol,
            )
    sources = {step.into for step in plan.closed if step.action is Action.SUMMARIZE}
    assert sources == {summary.id for summary in plan.summaries}
    for summary in plan.summaries:
        assert 0 < summary.tokens <= SMALL.summary_tokens
        told = sum(1 for step in plan.closed if step.into == summary.id)
        assert summary.metadata.custom["sources"] == told
    if plan.tokens_after < retention.trigger_tokens(SMALL):
        rest = retention.plan(after, SMALL, NOW, repo="r", agent_id="a")
        assert (rest.steps, rest.summaries, rest.notes) == ((), (), ())
    elif plan.tokens_after > retention.target_tokens(SMALL) and (forced or plan.steps):
        assert plan.notes, "a scope that stays too large says why"


def test_what_stands_for_a_duplicate_is_not_summarized_in_the_same_run() -> None:
    """A law that random scopes break once in a thousand runs."""
    text = " ".join(f"word{n} spoke of the parser at length" for n in range(20))
    twice = [entry(0, text, days=9), entry(1, text, days=8)]
    others = [entry(n, text.replace("word", f"w{n}x"), days=n) for n in range(2, 6)]
    plan = close([*twice, *others])
    assert closed(plan)[0] is Action.DEDUPLICATE
    assert Action.SUMMARIZE in closed(plan).values()
    assert 1 not in closed(plan)


def test_nothing_happens_below_the_trigger() -> None:
    entries = [entry(n, "the very same words") for n in range(3)]
    plan = retention.plan(entries, SMALL, NOW)
    assert plan.steps == ()
    assert plan.tokens_after == plan.tokens_before
    assert closed(close(entries)) == {0: Action.DEDUPLICATE, 1: Action.DEDUPLICATE}


def test_it_is_triggered_at_nine_tenths_of_the_budget() -> None:
    text = "alpha beta gamma delta epsilon zeta eta theta iota kappa"
    tokens = count(text + " 1000")
    settings = MemorySettings(budget_tokens=tokens * 10, summary_tokens=20)
    entries = [entry(n, f"{text} {1000 + n}", days=n) for n in range(10)]
    assert sum(e.tokens for e in entries) == settings.budget_tokens
    assert retention.plan(entries[:8], settings, NOW).steps == ()
    assert retention.plan(entries[:9], settings, NOW).steps != ()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Run tests with pytest!", "run   TESTS, with pytest", True),
        ("retries is 3", "retries is 5", False),
        ("x = 1 holds in main", "x != 1 holds in main", False),
        ("load_a calls load_b", "load_b calls load_a", False),
        ("the suite passed on main", "the suite failed on main", False),
        ("use the cache", "do not use the cache", False),
    ],
)
def test_what_is_a_duplicate(first: str, second: str, same: bool) -> None:
    # The same direction: were words or meaning all that counts, all of these were duplicates.
    pair = [entry(n, text, embedding=(1.0, 0.0)) for n, text in enumerate((first, second))]
    assert (len(closed(close(pair))) == 1) is same


def test_a_paraphrase_is_a_near_duplicate_by_its_vector() -> None:
    one = entry(0, "tests are run with pytest -n 4", embedding=(1.0, 0.0))
    two = entry(1, "use pytest -n 4 to run tests", embedding=(0.98, 0.199), days=-1)
    three = entry(2, "something else -n 4", embedding=(0.0, 1.0))
    plan = close([one, two, three])
    assert closed(plan) == {0: Action.DEDUPLICATE}
    assert "cosine 0.98" in plan.closed[0].reason


def test_of_duplicates_the_pinned_then_the_important_then_the_newest_stays() -> None:
    text = "the same text"
    old, new = entry(0, text, days=9), entry(1, text, days=1)
    important = entry(2, text, days=20, importance=0.7)
    assert closed(close([old, new])).keys() == {0}
    assert closed(close([old, new, important])).keys() == {0, 1}
    assert closed(close([replace(old, pinned=True), new, important])).keys() == {1, 2}


def test_places_in_the_code_are_never_mixed() -> None:
    one, two = entry(0, "it is slow", path="a.py"), entry(1, "it is slow", path="b.py")
    assert closed(close([one, two])) == {}


def test_agents_and_repositories_are_never_mixed() -> None:
    with pytest.raises(ValueError, match="one agent"):
        close([entry(0, "x"), replace(entry(1, "x"), agent_id="b")])


def test_a_duplicate_that_was_true_at_another_time_stays() -> None:
    always = entry(0, "the flag is on", days=9)
    for_now = entry(1, "the flag is on", valid_from=NOW - timedelta(days=1))
    assert closed(close([always, for_now])) == {1: Action.DEDUPLICATE}
    ends = replace(always, valid_to=NOW + timedelta(days=1))
    assert closed(close([ends, for_now])) == {}


@pytest.mark.parametrize(
    ("kind", "tags", "custom", "outcome"),
    [
        ("memory", ("success",), {}, "success"),
        ("memory", ("Failure", "success"), {}, "failure"),
        ("memory", (), {"outcome": "passed"}, "success"),
        ("memory", (), {"outcome": {"status": "FAILED"}}, "failure"),
        ("memory", (), {"status": "error"}, "failure"),
        ("turn", (), {"tools": [{"name": "bash", "exit_code": 1}]}, "failure"),
        ("turn", (), {"tools": [{"name": "bash", "exit_code": 0}]}, ""),
        ("turn", (), {"tools": [{"is_error": True}]}, "failure"),
        ("memory", (), {"tools": [{"is_error": True}]}, ""),
        ("turn", (), {"rule": "tool", "tool": "bash", "succeeded": False}, "failure"),
        ("turn", (), {"rule": "tool", "tool": "bash", "succeeded": True}, ""),
        ("turn", (), {"tools": "x", "status": 7}, ""),
        ("summary", ("failure",), {}, ""),
    ],
)
def test_what_is_a_success_or_a_failure(
    kind: str, tags: tuple[str, ...], custom: dict[str, Any], outcome: str
) -> None:
    assert retention.outcome_of(entry(0, "x", tags=tags, custom=custom, kind=kind)) == outcome


def test_the_newest_successes_and_failures_are_pinned() -> None:
    entries = [
        entry(n, f"run {n}", days=n, tags=("success" if n % 2 else "failure",)) for n in range(8)
    ]
    pins = retention.pinned(entries, 2)
    assert sorted(id_.int - 1 for id_ in pins) == [0, 1, 2, 3]
    assert "failure" in pins[entries[0].id]


def test_the_old_and_unimportant_is_summarized_first() -> None:
    text = "word " * 60
    keep = [entry(n, f"{text} keep {n}", session="new", importance=0.8) for n in range(2)]
    fade = [entry(9 + n, f"{text} fade {n}", session="old", days=90) for n in range(4)]
    plan = close([*keep, *fade])
    assert {n for n, a in closed(plan).items() if a is Action.SUMMARIZE} == {9, 10, 11, 12}
    (summary,) = plan.summaries
    assert summary.metadata.session_key == "old"
    assert summary.kind == "summary"
    assert plan.tokens_after <= retention.target_tokens(SMALL)


def test_groups_whose_summaries_say_the_same_share_one() -> None:
    texts = [f"The parser keeps {n} caches and its queue is short. " * 700 for n in range(2)]
    entries = [entry(n, text, days=90, path="a.py") for n, text in enumerate(texts)]
    deciding, sent = retention.planning(entries, SMALL, NOW, forced=True), 0
    try:
        next(deciding)
        while True:
            sent += 1
            deciding.send(Summary("The parser keeps caches."))
    except StopIteration as exc:
        plan = exc.value
    assert sent == 2
    (summary,) = plan.summaries
    assert [step.into for step in plan.closed] == [summary.id, summary.id]


def test_what_begins_later_or_ends_is_not_summarized() -> None:
    text = "word " * 190
    late = entry(0, f"{text} 1", valid_from=NOW + timedelta(days=1))
    ends = entry(1, f"{text} 2", valid_to=NOW + timedelta(days=1))
    plan = close([late, ends])
    assert plan.closed == ()
    assert "raise `memory.budget_tokens`" in plan.notes[0]


def test_a_summary_is_true_once_the_last_of_its_sources_is() -> None:
    begins = [NOW - timedelta(days=n) for n in (30, 20)]
    entries = [entry(n, "word " * 200 + str(n), valid_from=at) for n, at in enumerate(begins)]
    (summary,) = close(entries).summaries
    assert summary.valid_from == begins[1]


def test_a_thousand_memories_are_planned_within_bounds() -> None:
    entries = [
        entry(n, f"step {n} of the run touched file_{n % 7}.py " * 3, days=n / 50)
        for n in range(1000)
    ]
    settings = MemorySettings(budget_tokens=20_000)
    plan = retention.plan(entries, settings, NOW)
    assert plan.tokens_after <= 12_000
    assert all(summary.tokens <= settings.summary_tokens for summary in plan.summaries)
