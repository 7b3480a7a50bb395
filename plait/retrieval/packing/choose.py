"""Which items, and how much of each: greedy by worth per token, inside a budget and its quotas.

A knapsack whose items come in sizes (multiple choice), solved greedily by the gain of the next size
per further token, as usual for it (Kellerer, Pferschy, Pisinger, Knapsack Problems, 2004, ch. 11).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plait.domain.recall import Tier

# What a tier shows of an item's worth: a signature tells where to look, a line that it exists. Chosen on
# benchmarks/context_budget.py: with 0.4 and 0.15 fewer answers are shown whole, at every budget.
SHOWN = {Tier.FULL: 1.0, Tier.OUTLINE: 0.2, Tier.LINE: 0.05}
# An item is worth its score to this power: the best of a ranking is far likelier the answer than its
# tenth, which scores about half. Chosen on benchmarks/context_budget.py, where 2 is worse, and neither 8
# nor a further division by the rank is better.
SHARPNESS = 4.0


@dataclass(frozen=True, slots=True)
class Size:
    """One way to show an item. `index`: the caller's own."""

    tier: Tier
    tokens: int
    shown: float  # share of the item's worth


@dataclass(frozen=True, slots=True)
class Entry:
    """An item that wants in. `sizes` in any order."""

    worth: float  # of showing it whole, above 0
    group: str  # whose quota it takes from
    sizes: Sequence[Size]


@dataclass(frozen=True, slots=True)
class Choice:
    """By entry the index of its size, -1: left out. `spent`: tokens. `refused`: by entry that is left
    out, its cause (budget, quota, items)."""

    sizes: tuple[int, ...]
    spent: int
    refused: Mapping[int, str]


def choose(
    entries: Sequence[Entry], budget: int, shares: Mapping[str, float], limit: int
) -> Choice:
    """At most `limit` entries, best first, of at most `budget` tokens in all.

    A group keeps to its share while others may still want theirs; what they leave is given back."""
    run = _Run(entries, budget, limit)
    run.fill({group: int(share * budget) for group, share in shares.items()})
    run.fill({})
    refused = {i: run.refused.get(i, "budget") for i, size in enumerate(run.sizes) if size < 0}
    return Choice(tuple(run.sizes), sum(run.spent.values()), refused)


def worth(score: float) -> float:
    """What showing an item whole is worth, above 0."""
    return float(max(score, 0.01) ** SHARPNESS)


class _Run:
    """The state of one choice; not kept."""

    def __init__(self, entries: Sequence[Entry], budget: int, limit: int) -> None:
        self.entries = entries
        self.budget = budget
        self.limit = limit
        self.sizes = [-1] * len(entries)
        self.spent: dict[str, int] = {}
        self.taken = 0
        self.refused: dict[int, str] = {}

    def fill(self, quotas: Mapping[str, int]) -> None:
        """Take the best step there is until none fits."""
        heap: list[tuple[float, int, int, int]] = []
        for i in range(len(self.entries)):
            self._offer(heap, i, set())
        while heap:
            _, i, size, came_from = heapq.heappop(heap)
            if self.sizes[i] != came_from:
                continue
            cause = self._refusal(i, size, quotas)
            if cause:
                self.refused[i] = cause
                # A smaller step of the same item may still fit.
                tokens = self.entries[i].sizes[size].tokens
                larger = {
                    s for s, other in enumerate(self.entries[i].sizes) if other.tokens >= tokens
                }
                self._offer(heap, i, larger)
            else:
                self._take(i, size)
                self._offer(heap, i, set())

    def _offer(self, heap: list[tuple[float, int, int, int]], i: int, barred: set[int]) -> None:
        """Put the step of entry `i` that gains most per token on the heap."""
        entry, now = self.entries[i], self.sizes[i]
        has, paid = (entry.sizes[now].shown, entry.sizes[now].tokens) if now >= 0 else (0.0, 0)
        best: tuple[float, int] | None = None
        for s, size in enumerate(entry.sizes):
            if s in barred or size.shown <= has:
                continue
            gain = entry.worth * (size.shown - has) / max(1, size.tokens - paid)
            if best is None or gain > best[0]:
                best = (gain, s)
        if best is not None:
            heapq.heappush(heap, (-best[0], i, best[1], now))

    def _refusal(self, i: int, size: int, quotas: Mapping[str, int]) -> str:
        entry, now = self.entries[i], self.sizes[i]
        if now < 0 and self.taken >= self.limit:
            return "items"
        more = entry.sizes[size].tokens - (entry.sizes[now].tokens if now >= 0 else 0)
        if sum(self.spent.values()) + more > self.budget:
            return "budget"
        quota = quotas.get(entry.group)
        if quota is not None and self.spent.get(entry.group, 0) + more > quota:
            return "quota"
        return ""

    def _take(self, i: int, size: int) -> None:
        entry, now = self.entries[i], self.sizes[i]
        more = entry.sizes[size].tokens - (entry.sizes[now].tokens if now >= 0 else 0)
        self.spent[entry.group] = self.spent.get(entry.group, 0) + more
        self.taken += now < 0
        self.sizes[i] = size
        self.refused.pop(i, None)
