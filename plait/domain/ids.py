"""Ids made in Python: time-ordered UUIDs (RFC 9562, version 7), so that B-trees grow at one end."""

from __future__ import annotations

import os
import time
from uuid import UUID

from plait.domain.values import ItemId


def new_item_ids(n: int) -> list[ItemId]:
    """`n` new ids in ascending order. They share a millisecond; a counter keeps them apart and in order."""
    millis = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(5), "big")
    # 48 bits of time, 12 + 22 bits of counter (4 million in one call and still ordered), 40 random bits.
    ids = []
    for i in range(n):
        high = (millis << 16) | 0x7000 | ((i >> 22) & 0xFFF)
        low = (0b10 << 62) | ((i & 0x3FFFFF) << 40) | tail
        ids.append(ItemId(UUID(int=(high << 64) | low)))
    return ids
