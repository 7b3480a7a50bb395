"""Remarks packed into a few tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from plait.domain.remarks import Remark, composed
from plait.text.token_count import Counter


def fitted(
    remarks: Sequence[Remark], known: Collection[str], counter: Counter, budget: int
) -> list[Remark]:
    """Those that are not `known`, from the front, as long as their text has at most `budget` tokens; a
    longer one is skipped. One a key."""
    usable = counter.usable(budget)
    kept: list[Remark] = []
    seen = set(known)
    for remark in remarks:
        if remark.key in seen:
            continue
        tried = [*kept, remark]
        if counter.count(composed(tried)) <= usable:
            kept = tried
            seen.add(remark.key)
    return kept
