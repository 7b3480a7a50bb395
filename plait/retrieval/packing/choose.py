"""Which items, and how much of each: greedy by worth per token, inside a budget and its quotas.

A knapsack whose items come in sizes (multiple choice), solved greedily by the gain of the next size
per further token, as usual for it (Kellerer, Pferschy, Pisinger, Knapsack Problems, 2004, ch. 11).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plait.domain.recall import Tier

# What a tier shows of an item's worth: a line tells where to look, a signature a little more. Of what agents
# wrote the first paragraph is often all one needs.
SHOWN = {Tier.FULL: 1.0, Tier.OUTLINE: 0.15, Tier.LINE: 0.13}
SAID = {Tier.FULL: 1.0, Tier.OUTLINE: 0.2, Tier.LINE: 0.05}
# An item is worth its score to this power: the best of a ranking is far likelier the answer than its
# tenth, which scores about half. As `SHOWN` and `SIZE`, chosen on benchmarks/context_budget.py.
SHARPNESS = 3.0
# A long function is likelier the one that is looked for than a short one of its score: worth grows with its
# length to this power. Without it short ones, cheaper each, push the best out.
SIZE = 0.75
USUAL_CHARS = 480  # at which length counts 1
MAX_CHARS = 1200  # from which it counts no more
# What is in no function: a class without its methods, loose lines of a module. The benchmark counts functions
# alone and would have less; no chunk of these is looked for as often as one of a function, all the same.
OUTSIDE = 0.4


@dataclass(frozen=True, slots=True)
class Size:
    """One way to show an item. `head`: the line it stands under, which those of one head share."""

    tier: Tier
    tokens: int
    shown: float  # share of the item's worth
    head: str = ""


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
    entries: Sequence[Entry],
    budget: int,
    shares: Mapping[str, float],
    limit: int,
    heads: Mapping[str, int] | None = None,
) -> Choice:
    """At most `limit` entries, best first, of at most `budget` tokens in all. `heads`: tokens by head.

    A group keeps to its share while others may still want theirs; what they leave is given back."""
    run = _Run(entries, budget, limit, heads or {})
    run.fill(_quotas(entries, budget, shares))
    run.fill({})
    refused = {i: run.refused.get(i, "budget") for i, size in enumerate(run.sizes) if size < 0}
    return Choice(tuple(run.sizes), sum(run.spent.values()), refused)


def worth(score: float, chars: int = USUAL_CHARS, *, outside: bool = False) -> float:
    """What showing an item of so many characters whole is worth, above 0. `outside`: of any function."""
    size = (min(max(chars, 1), MAX_CHARS) / USUAL_CHARS) ** SIZE
    return float(max(score, 0.01) ** SHARPNESS * size * (OUTSIDE if outside else 1.0))


def _quotas(entries: Sequence[Entry], budget: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Tokens by group: its share, and what the others couldn't use of the rest if all of theirs were shown
    whole. Else the best item, if it is longer than a share, made way for worse ones though nobody wanted
    the room."""
    wanted = dict.fromkeys(shares, 0)
    for entry in entries:
        most = max((size.tokens for size in entry.sizes), default=0)
        wanted[entry.group] = wanted.get(entry.group, 0) + most
    quotas = {}
    for group, share in shares.items():
        others = sum(
            min(tokens, int(shares.get(other, 1.0) * budget))
            for other, tokens in wanted.items()
            if other != group
        )
        quotas[group] = max(int(share * budget), budget - others)
    return quotas


class _Run:
    """The state of one choice; not kept."""

    def __init__(
        self, entries: Sequence[Entry], budget: int, limit: int, heads: Mapping[str, int]
    ) -> None:
        self.entries = entries
        self.budget = budget
        self.limit = limit
        self.heads = heads
        self.under: dict[str, set[int]] = {}  # by head, what stands under it
        self.by_head: dict[str, list[int]] = {}
        for i, entry in enumerate(entries):
            for head in {size.head for size in entry.sizes if size.head}:
                self.by_head.setdefault(head, []).append(i)
        self.sizes = [-1] * len(entries)
        self.barred: list[set[int]] = [set() for _ in entries]
        self.spent: dict[str, int] = {}
        self.taken = 0
        self.refused: dict[int, str] = {}

    def fill(self, quotas: Mapping[str, int]) -> None:
        """Take the best step there is until none fits."""
        heap: list[tuple[float, int, int, int]] = []
        for i in range(len(self.entries)):
            self.barred[i] = set()
            self._offer(heap, i)
        while heap:
            gain, i, size, came_from = heapq.heappop(heap)
            if self.sizes[i] != came_from or size in self.barred[i]:
                continue
            if -gain > self._gain(i, size) * (1 + 1e-9):  # its head went, so that it costs more
                self._offer(heap, i)
                continue
            cause = self._refusal(i, size, quotas)
            if cause:
                self.refused[i] = cause
                # A smaller step of the same item may still fit.
                cost = self._cost(i, size)
                sizes = range(len(self.entries[i].sizes))
                self.barred[i] |= {s for s in sizes if self._cost(i, s) >= cost}
            else:
                for other in self._take(i, size):
                    self._offer(heap, other)
            self._offer(heap, i)

    def _offer(self, heap: list[tuple[float, int, int, int]], i: int) -> None:
        """Put the step of entry `i` that gains most per token on the heap."""
        entry, now = self.entries[i], self.sizes[i]
        has = entry.sizes[now].shown if now >= 0 else 0.0
        steps = [
            (self._gain(i, s), -s)
            for s, size in enumerate(entry.sizes)
            if s not in self.barred[i] and size.shown > has
        ]
        if steps:
            gain, s = max(steps)
            heapq.heappush(heap, (-gain, i, -s, now))

    def _gain(self, i: int, size: int) -> float:
        """What the step to `size` gains per further token."""
        entry, now = self.entries[i], self.sizes[i]
        has = entry.sizes[now].shown if now >= 0 else 0.0
        return entry.worth * (entry.sizes[size].shown - has) / max(1, self._cost(i, size))

    def _cost(self, i: int, size: int) -> int:
        """Further tokens of the step to `size`, with the head that it needs or no longer needs."""
        entry, now = self.entries[i], self.sizes[i]
        to, before = entry.sizes[size], entry.sizes[now] if now >= 0 else None
        cost = to.tokens - (before.tokens if before else 0)
        left = before.head if before else ""
        if to.head != left:
            if to.head and not self.under.get(to.head):
                cost += self.heads.get(to.head, 0)
            if left and len(self.under[left]) == 1:
                cost -= self.heads.get(left, 0)
        return cost

    def _refusal(self, i: int, size: int, quotas: Mapping[str, int]) -> str:
        group = self.entries[i].group
        if self.sizes[i] < 0 and self.taken >= self.limit:
            return "items"
        more = self._cost(i, size)
        if sum(self.spent.values()) + more > self.budget:
            return "budget"
        quota = quotas.get(group)
        if quota is not None and self.spent.get(group, 0) + more > quota:
            return "quota"
        return ""

    def _take(self, i: int, size: int) -> list[int]:
        """Those whose steps cost less now, since their head is there."""
        entry, now = self.entries[i], self.sizes[i]
        self.spent[entry.group] = self.spent.get(entry.group, 0) + self._cost(i, size)
        self.taken += now < 0
        if now >= 0 and (left := entry.sizes[now].head):
            self.under[left].discard(i)
        self.sizes[i] = size
        self.refused.pop(i, None)
        head = entry.sizes[size].head
        if not head:
            return []
        under = self.under.setdefault(head, set())
        under.add(i)
        if len(under) > 1:
            return []
        others = [other for other in self.by_head[head] if other != i]
        for other in others:
            self.barred[other] = set()
        return others
