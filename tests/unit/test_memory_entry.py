"""A memory on its way in: its limits, its one form, its hash."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from plait.domain.errors import MemoryInvalid
from plait.domain.memory import NO_ID, MemoryEntry, MemoryId, MemoryMetadata, is_made
from plait.memory.entry import check

ENTRY = MemoryEntry(NO_ID, "r", "a", "tabs, not spaces")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def meta(**fields: Any) -> MemoryEntry:
    return replace(ENTRY, metadata=MemoryMetadata(**fields))


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (replace(ENTRY, content=""), "content"),
        (replace(ENTRY, content=" \n"), "content"),
        (replace(ENTRY, content="x" * (2**20 + 1)), "content"),
        (replace(ENTRY, content="é" * 2**19 + "x"), "content"),
        (replace(ENTRY, content="a\0"), "content"),
        (replace(ENTRY, content="a\ud800"), "content"),
        (replace(ENTRY, agent_id="x" * 257), "agent_id"),
        (replace(ENTRY, agent_id="\0"), "agent_id"),
        (meta(session_key="x" * 257), "session_key"),
        (meta(tags=tuple(f"t{i}" for i in range(51))), "tags"),
        (meta(tags=("x" * 129,)), "tags"),
        (meta(tags=(" ",)), "tags"),
        (meta(importance=1.01), "importance"),
        (meta(importance=-0.01), "importance"),
        (meta(importance=float("nan")), "importance"),
        (meta(custom={"x": "y" * 65_536}), "custom"),
        (meta(custom={"x": float("inf")}), "custom"),
        (meta(custom={"x": 2**53 + 1}), "custom"),
        (meta(custom={"x": object()}), "custom"),
        (meta(custom={1: 2}), "custom"),
        (meta(custom={"\0": 2}), "custom"),
        (meta(custom={"x": ["\ud800"]}), "custom"),
        (replace(ENTRY, kind="note"), "kind"),
        (replace(ENTRY, path="/etc/passwd"), "path"),
        (replace(ENTRY, path="a/../b"), "path"),
        (replace(ENTRY, path="a\\b"), "path"),
        (replace(ENTRY, path="x" * 4097), "path"),
        (replace(ENTRY, symbol="a b"), "symbol"),
        (replace(ENTRY, symbol="/a"), "symbol"),
        (replace(ENTRY, symbol="x" * 1025), "symbol"),
        (replace(ENTRY, embedding=()), "embedding"),
        (replace(ENTRY, embedding=(0.0, 0.0)), "embedding"),
        (replace(ENTRY, embedding=(float("nan"), 1.0)), "embedding"),
        (replace(ENTRY, embedding=(float("inf"), 1.0)), "embedding"),
        (replace(ENTRY, embedding=(1.0,) * 4001), "embedding"),
        (replace(ENTRY, valid_from=AT, valid_to=AT), "valid_to"),
        (replace(ENTRY, valid_from=AT, valid_to=AT - timedelta(1)), "valid_to"),
        (replace(ENTRY, valid_from=datetime(2026, 1, 1)), "valid_from"),
        (
            replace(ENTRY, valid_to=datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))),
            "valid_to",
        ),
        (replace(ENTRY, valid_from=datetime.min.replace(tzinfo=UTC)), "valid_from"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_its_field(entry: MemoryEntry, field: str) -> None:
    with pytest.raises(MemoryInvalid) as caught:
        check(entry)
    assert caught.value.field == field
    assert field in caught.value.message


def test_deep_json_is_refused() -> None:
    custom: dict[str, Any] = {}
    for _ in range(2000):
        custom = {"x": custom}
    with pytest.raises(MemoryInvalid):
        check(meta(custom=custom))


@pytest.mark.parametrize("request_id", ["a b", "x" * 129, "é", "\n"])
def test_request_ids(request_id: str) -> None:
    with pytest.raises(MemoryInvalid):
        check(ENTRY, request_id)


def test_it_is_brought_to_one_form() -> None:
    local = AT.astimezone(timezone(timedelta(hours=5)))
    entry = replace(
        meta(tags=("b", "a", "b"), importance=0.7, custom={"n": 2.0, "t": (1, True, None)}),
        valid_from=local, embedding=(3.0, 4.0), path="./a.py",
    )  # fmt: skip
    checked = check(entry, "q").entry
    assert checked.metadata.tags == ("a", "b")
    assert checked.metadata.custom == {"n": 2, "t": [1, True, None]}
    assert checked.valid_from == AT
    assert checked.valid_from.tzinfo is UTC
    assert checked.embedding == pytest.approx((0.6, 0.8))
    assert checked.path == "a.py"
    assert checked.tokens == 4
    assert check(checked, "q") == check(entry, "q")


def test_equal_bodies_have_equal_hashes_and_ids() -> None:
    a, b = check(meta(tags=("x", "y"))), check(meta(tags=("y", "x")))
    assert a == b
    assert is_made(a.request_id)
    assert not is_made(check(ENTRY, "q").request_id)


@pytest.mark.parametrize(
    "other",
    [
        replace(ENTRY, repo="r2"), replace(ENTRY, agent_id="b"), replace(ENTRY, content="x"),
        replace(ENTRY, kind="turn"), replace(ENTRY, path="a.py"), replace(ENTRY, symbol="a"),
        replace(ENTRY, pinned=True), replace(ENTRY, embedding=(1.0,)), replace(ENTRY, valid_from=AT),
        replace(ENTRY, valid_to=AT), meta(session_key="s"), meta(tags=("x",)), meta(importance=0.6),
        meta(custom={"a": 1}),
    ],
)  # fmt: skip
def test_any_other_body_has_another_hash(other: MemoryEntry) -> None:
    assert check(other).body_hash != check(ENTRY).body_hash


def test_what_it_supersedes_is_part_of_the_body() -> None:
    assert check(ENTRY, "q", MemoryId(UUID(int=1))).body_hash != check(ENTRY, "q").body_hash
