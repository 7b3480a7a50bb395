"""What workers tell the first process of their service."""

from __future__ import annotations

from uuid import UUID

import pytest

from plait.domain.scope import Scope
from plait.domain.values import ItemId
from server.process.wakes import Wake, parsed


@pytest.mark.parametrize(
    "wake",
    [
        Wake(),
        Wake.of({"b", "a"}, {Scope("t", "a", "agent", "session")}),
        Wake(published=True),
        Wake(level=True),
        Wake.touching("acme@r", [ItemId(UUID(int=7)), ItemId(UUID(int=8))]),
    ],
)
def test_a_wake_is_one_line_and_comes_back_as_it_was(wake: Wake) -> None:
    line = wake.line()
    assert line.count(b"\n") == 1
    assert parsed(line) == wake


@pytest.mark.parametrize("line", [b"", b"x", b"{}", b"[]", b'{"repos": 1}'])
def test_another_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        parsed(line)
