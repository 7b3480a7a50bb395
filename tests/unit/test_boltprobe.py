"""The keeper's hand-written Bolt, byte for byte as PackStream and Bolt 4.4 define it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from graph.server.boltprobe import GOODBYE, PULL, RUN, message, pack


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        ("", b"\xd1\x00\x00"),
        ("ü", b"\xd1\x00\x02\xc3\xbc"),
        (1000, b"\xc9\x03\xe8"),
        (-1, b"\xc9\xff\xff"),
        ({}, b"\xa0"),
        ({"n": 1000}, b"\xa1\xd1\x00\x01n\xc9\x03\xe8"),
    ],
)
def test_values_are_packed(value: str | int | Mapping[str, str | int], packed: bytes) -> None:
    assert pack(value) == packed


def test_a_message_is_one_chunk_with_its_end() -> None:
    assert message(GOODBYE, b"") == b"\x00\x02\xb0\x02\x00\x00"
    assert message(PULL, b"x") == b"\x00\x03\xb1\x3fx\x00\x00"
    assert message(RUN, b"x") == b"\x00\x03\xb3\x10x\x00\x00"
