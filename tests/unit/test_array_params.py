"""Arrays in PostgreSQL's binary form, read back by the driver's own loaders."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg.adapt import Transformer
from psycopg.pq import Format

from plait.domain.ids import new_item_ids
from vector.connection.arrays import bytea_array, text_array, uuid_array

TEXTS, BYTEAS, UUIDS = 1009, 1001, 2951


def loaded(oid: int, sent: bytes) -> Any:
    return Transformer().get_loader(oid, Format.BINARY).load(bytes(sent))


@pytest.mark.parametrize(
    "values", [[], ["a"], ["", "x" * 70_000, "grüße", "日本"], ["a", None, "b"], [None]]
)
def test_texts(values: list[str | None]) -> None:
    assert loaded(TEXTS, text_array(values)) == values


@pytest.mark.parametrize("values", [[], [b"\0\xff"], [b"", b"ab", None]])
def test_bytes(values: list[bytes | None]) -> None:
    assert loaded(BYTEAS, bytea_array(values)) == values


@pytest.mark.parametrize("values", [[], [uuid4()], new_item_ids(300)])
def test_uuids(values: list[UUID]) -> None:
    assert loaded(UUIDS, uuid_array(values)) == values


def test_half_a_surrogate_pair_has_no_bytes() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["\ud800"])
