"""`copier` does what `dataclasses.replace` does."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from plait.domain.copies import copier


@dataclass(frozen=True, slots=True)
class Value:
    a: int
    b: str = "b"
    c: tuple[int, ...] = field(default_factory=tuple)


changed = copier(Value)


def test_as_replace_and_the_old_one_stays() -> None:
    old = Value(1, c=(1, 2))
    for changes in ({}, {"a": 2}, {"b": "x", "c": ()}):
        made = changed(old, **changes)
        assert made == replace(old, **changes)
        assert type(made) is Value
        assert made is not old
    assert old == Value(1, "b", (1, 2))


def test_a_copy_is_frozen_and_has_no_other_fields() -> None:
    made = changed(Value(1), a=2)
    with pytest.raises(FrozenInstanceError):
        made.a = 3  # type: ignore[misc]
    with pytest.raises(KeyError):
        changed(Value(1), d=2)


@dataclass(frozen=True, slots=True)
class One:
    a: int | tuple[int, ...]


def test_a_value_of_one_field() -> None:
    only = copier(One)
    assert only(One(1)) == One(1)
    assert only(One(1), a=2) == One(2)
    assert only(One((1, 2))) == One((1, 2))
