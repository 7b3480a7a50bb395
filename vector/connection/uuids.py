"""UUIDs in bulk."""

from __future__ import annotations

from uuid import UUID, SafeUUID

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
