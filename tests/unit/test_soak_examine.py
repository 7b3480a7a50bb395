"""The soak's checker can fail: lost and half feedback, mixed index runs, half undone compactions are seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from benchmarks.soak.examine import Claim, examine
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.snapshot import Item, Segment, Snapshot

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
RECALL, HELPED, HARMED, COMPACTION = (UUID(int=n) for n in range(1, 5))
EMPTY = Snapshot(
    "r", {}, {}, {}, (), (), (), {}, (), {}, frozenset(), {}, (), (), frozenset(), WHEN, 0, ()
)  # fmt: skip
REPORT = Request(
    "f", Kind.FEEDBACK, "r", (), payload=(RECALL, HELPED, HARMED), answer={"accepted": 2}
)
VERDICTS = ((RECALL, HELPED, True, False), (RECALL, HARMED, False, True))
REPORTED = replace(EMPTY, feedback={"f": (RECALL, 2)}, verdicts=VERDICTS)


def claims(shot: Snapshot, *requests: Request) -> set[Claim]:
    return {violation.claim for violation in examine(shot, requests)}


def test_feedback_that_is_there_whole_is_no_violation() -> None:
    assert claims(REPORTED, REPORT) == set()
    assert claims(EMPTY, replace(REPORT, answer=None)) == set()


def test_lost_and_half_feedback_is_seen() -> None:
    assert Claim.LOST in claims(EMPTY, REPORT)
    assert Claim.LOST in claims(replace(REPORTED, verdicts=VERDICTS[:1]), REPORT)
    half = replace(EMPTY, verdicts=VERDICTS)
    assert Claim.PARTIAL in claims(half, replace(REPORT, answer=None))


def test_feedback_that_nobody_sent_or_that_came_twice_is_seen() -> None:
    assert Claim.EFFECT in claims(REPORTED)
    assert Claim.LOST in claims(replace(REPORTED, verdicts=(*VERDICTS, VERDICTS[0])), REPORT)


def indexed(word: str, *, acked: bool = True) -> Request:
    return Request(word, Kind.INDEX, "r", (word,), answer={"word": word} if acked else None)


def code(first: str, second: str) -> Snapshot:
    files = (("pkg/more.py", first), ("tests/test_work.py", second))
    return replace(
        EMPTY, code=tuple((path, f"def m_{w}():\n    return '{w}'") for path, w in files)
    )


def test_a_published_revision_is_of_one_run_and_of_the_last() -> None:
    runs = indexed("old"), indexed("new")
    assert claims(code("new", "new"), *runs) == set()
    assert claims(code("new", "new"), runs[0], indexed("new", acked=False)) == set()
    assert Claim.LOST in claims(code("old", "old"), *runs)
    assert Claim.PARTIAL in claims(code("old", "new"), *runs)


def test_a_compaction_that_is_undone_in_part_is_seen() -> None:
    entry = UUID(int=9)
    item = Item(entry, "memories", "text", None, entry, 1, WHEN, WHEN, None)
    shot = replace(
        EMPTY,
        items=(item,),
        segments=(Segment(1, "memories", (entry,), 1),),
        memory_requests={"m": ((entry,), (False,))},
        compactions={COMPACTION: True},
        undone=frozenset({(entry, None)}),
    )
    stored = Request("m", Kind.MEMORY, "r", ("text",), "packed-agent")
    undo = Request("u", Kind.UNDO, "r", (), payload=COMPACTION, answer={})
    assert Claim.PARTIAL in claims(shot, stored, undo)
    open_ = replace(shot, items=(replace(item, superseded_at=None),))
    assert claims(open_, stored, undo) == set()
    assert Claim.LOST in claims(replace(open_, compactions={COMPACTION: False}), stored, undo)


def test_a_turn_with_one_memory_less_is_seen() -> None:
    entries = UUID(int=9), UUID(int=10)
    items = tuple(
        Item(e, "memories", f"text {e.int}", None, e, 1, WHEN, None, None) for e in entries
    )
    shot = replace(
        EMPTY,
        items=items,
        segments=(Segment(1, "memories", entries, 2),),
        memory_requests={"t": (entries, (False, False))},
    )
    answer = {"entry_ids": [str(e) for e in entries]}
    turn = Request("t", Kind.LEARN, "r", ("text 9", "text 10"), answer=answer)
    assert claims(shot, turn) == set()
    half = replace(shot, items=items[:1], segments=(Segment(1, "memories", entries[:1], 1),))
    assert Claim.LOST in claims(half, turn)
    assert Claim.LOST in claims(EMPTY, turn)
