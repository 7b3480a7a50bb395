"""UUIDs in bulk."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID, SafeUUID

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

_new, _set = UUID.__new__, object.__setattr__


def uuids(raw: bytes) -> list[UUID]:
    """The UUIDs of `raw`, 16 bytes each. `UUID(bytes=…)` checks what it is given: 1 µs each, here 0.25;
    a search makes hundreds."""
    found = []
    for at in range(0, len(raw), 16):
        made = _new(UUID)
        _set(made, "int", int.from_bytes(raw[at : at + 16], "big"))
        _set(made, "is_safe", SafeUUID.unknown)
        found.append(made)
    return found


# Fixed numbers of PostgreSQL's types uuid and uuid[].
_UUID, _UUIDS = 2950, 2951
_LENGTH = struct.pack(">i", 16)


class UuidArray(bytes):
    """A `uuid[]` in PostgreSQL's binary form."""


def uuid_array(ids: Sequence[UUID]) -> UuidArray:
    """`ids` as a parameter. psycopg asks each element for its type: 70 µs of 80, here 6."""
    if not ids:
        return UuidArray(struct.pack(">3i", 0, 0, _UUID))
    head = struct.pack(">5i", 1, 0, _UUID, len(ids), 1)
    return UuidArray(head + b"".join([_LENGTH + id_.bytes for id_ in ids]))


class UuidArrayDumper(Dumper):
    format = Format.BINARY
    oid = _UUIDS

    def dump(self, obj: bytes) -> bytes:
        return bytes(obj)


def register(context: AdaptContext) -> None:
    """Let connections of `context` take `UuidArray`."""
    context.adapters.register_dumper(UuidArray, UuidArrayDumper)
