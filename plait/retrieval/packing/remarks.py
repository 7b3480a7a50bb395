"""Pack remarks into a token budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from plait.domain.remarks import Remark, composed
from plait.text.token_count import Counter


def fitted(
    remarks: Sequence[Remark], known: Collection[str], counter: Counter, budget: int
) -> list[Remark]:
    """The remarks whose keys are not in `known`, in order, one a key, within `budget` tokens of text; one that does
    not fit is skipped."""
    usable = counter.usable(budget)
    fitting: list[Remark] = []
    seen = set(known)
    for remark in remarks:
        if remark.key in seen:
            continue
        tried = [*fitting, remark]
        if counter.count(composed(tried)) <= usable:
            fitting = tried
            seen.add(remark.key)
    return fitting
