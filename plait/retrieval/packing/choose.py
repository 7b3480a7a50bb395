"""Choose which items to show and at which size: locations first, then source in the remaining tokens.

Naming walks a fixed order of the items until the next name exceeds the tokens reserved for names. Neither the
order nor the cost of a name depends on the budget, and a larger budget reserves at least as many tokens: so every
item that is named within one budget is named within every larger one.

Enlarging then shows more of the named items, by gain per further token. No name is lost: an item is left out only
when another shows its whole text. This is a multiple-choice knapsack, solved by the usual greedy method (Kellerer,
Pferschy, Pisinger, Knapsack Problems, 2004, ch. 11).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from plait.domain.recall import Tier
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.packing
# Shares apply once names have taken this many tokens: with fewer, a poor item of one group displaced a good one of
# the other. Not fitted.
LEAD = 100


@dataclass(frozen=True, slots=True)
class Size:
    """One way to show an item. `head`: the heading line above it, shared by all entries with the same head.

    `joined`: indices of other entries whose text is joined to it."""

    tier: Tier
    tokens: int
    shown: float  # share of the item's worth
    head: str = ""
    joined: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate. `name`: index of the size that only names it; its other sizes have the same head or none.
    `place`: of the entries with one place, the first names them all; None: no other entry shares it."""

    worth: float  # of showing it whole, above 0
    group: str  # whose share it takes from
    sizes: Sequence[Size]
    name: int = -1
    place: Hashable = None


@dataclass(frozen=True, slots=True)
class Room:
    """Limits: tokens in all, tokens for names, number of entries, and tokens for the first name if that is more
    (one item is better than none)."""

    tokens: int
    names: int
    entries: int
    first: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """`sizes`: by entry the index of its size, -1 when left out. `spent`: tokens. `inside`: by omitted entry, the
    entry that names or shows it; `refused`: by every other omitted entry, the cause (budget, items)."""

    sizes: tuple[int, ...]
    spent: int
    inside: Mapping[int, int]
    refused: Mapping[int, str]


# (entry, size) -> the entries whose text that size contains.
Holds = Callable[[int, int], Collection[int]]


def choose(
    entries: Sequence[Entry],
    room: Room,
    shares: Mapping[str, float],
    heads: Mapping[str, int] | None = None,
    holds: Holds = lambda i, size: (),
) -> Choice:
    """What to show of `entries` in `room`. `heads`: tokens by head. Ties go to the earlier entry.

    Each group is limited to its share first; a second pass hands out what the other groups left."""
    run = _Run(entries, room, heads or {}, holds)
    refused = run.name(naming_order(entries, shares))
    steps = _steps(entries)
    for quotas in (_quotas(entries, room.tokens, shares), {}):
        run.enlarge(steps, quotas)
    inside = {i: run.root(i) for i in run.inside}
    return Choice(tuple(run.sizes), sum(run.spent.values()), inside, refused)


def worth(score: float, chars: int = WEIGHTS.usual_chars, *, outside: bool = False) -> float:
    """The worth, above 0, of showing an item of `chars` characters whole. `outside`: it is in no function."""
    size = (min(max(chars, 1), WEIGHTS.max_chars) / WEIGHTS.usual_chars) ** WEIGHTS.size
    return float(
        max(score, 0.01) ** WEIGHTS.sharpness * size * (WEIGHTS.outside if outside else 1.0)
    )


def naming_order(entries: Sequence[Entry], shares: Mapping[str, float]) -> list[int]:
    """The entries that can be named, by descending worth; an entry whose group is over its share of the tokens
    waits while another group has entries left. Independent of the budget."""
    queues: dict[str, list[int]] = {}  # the best last
    for i in sorted(range(len(entries)), key=lambda i: (entries[i].worth, -i)):
        if entries[i].sizes:
            queues.setdefault(entries[i].group, []).append(i)
    spent = dict.fromkeys(queues, 0)
    order: list[int] = []
    while queues:
        most = sum(spent.values())
        due = [g for g in queues if spent[g] <= shares.get(g, 1.0) * (most + LEAD)] or list(queues)
        group = max(due, key=lambda g: entries[queues[g][-1]].worth)
        i = queues[group].pop()
        order.append(i)
        spent[group] += entries[i].sizes[entries[i].name].tokens
        if not queues[group]:
            del queues[group]
    return order


def _steps(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """`(entry, size)` of the sizes that show more than a name, by descending gain per further token."""
    gains = []
    for i, entry in enumerate(entries):
        for s, size in enumerate(entry.sizes):
            name = entry.sizes[entry.name]
            if size.shown > name.shown:
                gain = entry.worth * (size.shown - name.shown) / max(1, size.tokens - name.tokens)
                gains.append((-gain, i, s))
    return [(i, s) for _, i, s in sorted(gains)]


def _quotas(entries: Sequence[Entry], budget: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Tokens by group: its share, plus what the other groups could not use even if they were shown whole.
    Otherwise the best item, when longer than its group's share, would give way to worse ones although the
    tokens remain unused."""
    demand = dict.fromkeys(shares, 0)
    for entry in entries:
        most = max((size.tokens for size in entry.sizes), default=0)
        demand[entry.group] = demand.get(entry.group, 0) + most
    quotas = {}
    for group, share in shares.items():
        others = sum(
            min(tokens, int(shares.get(other, 1.0) * budget))
            for other, tokens in demand.items()
            if other != group
        )
        quotas[group] = max(int(share * budget), budget - others)
    return quotas


class _Run:
    """Mutable state of one call of `choose`."""

    def __init__(
        self, entries: Sequence[Entry], room: Room, heads: Mapping[str, int], holds: Holds
    ) -> None:
        self.entries = entries
        self.room = room
        self.heads = heads
        self.holds = holds
        self.under: dict[str, set[int]] = {}  # by head, the entries below it
        self.sizes = [-1] * len(entries)
        self.inside: dict[int, int] = {}
        self.shown: dict[int, set[int]] = {}  # by entry, those whose text it shows
        self.spent: dict[str, int] = {}

    def root(self, i: int) -> int:
        """The entry in the context that contains `i`, directly or not."""
        while i in self.inside:
            i = self.inside[i]
        return i

    def name(self, order: Sequence[int]) -> dict[int, str]:
        """Name entries in `order` until the room is full. Returns the cause for each that is not named."""
        first: dict[Hashable, int] = {}
        refused: dict[int, str] = {i: "budget" for i, e in enumerate(self.entries) if not e.sizes}
        full = ""
        for i in order:
            entry = self.entries[i]
            if entry.place is not None and entry.place in first:
                self.inside[i] = first[entry.place]
                continue
            full = full or self._full(i)
            if full:
                refused[i] = full
            else:
                self._take(i, entry.name % len(entry.sizes))
                if entry.place is not None:
                    first[entry.place] = i
        return refused

    def enlarge(self, steps: Sequence[tuple[int, int]], quotas: Mapping[str, int]) -> None:
        """Apply each step that fits."""
        for i, size in steps:
            if self._enlargeable(i, size) and self._fits(i, size, quotas):
                first = self.inside.get(i)
                self._take(i, size)
                if first is not None:
                    self._replace(i, first)
                held = set(self.holds(i, size)) - {i}
                for other in held:
                    self._leave_out(other, i, held)

    def _full(self, i: int) -> str:
        entry = self.entries[i]
        named = sum(size >= 0 for size in self.sizes)
        if named >= self.room.entries:
            return "items"
        most = self.room.names if named else max(self.room.names, self.room.first)
        cost = sum(self.spent.values()) + self._cost(i, entry.name % len(entry.sizes))
        return "budget" if cost > most else ""

    def _enlargeable(self, i: int, size: int) -> bool:
        """Whether `size` shows more of `i` than its current size does, and joins only entries that are named."""
        if any(
            self.sizes[o] < 0 and o not in self.inside for o in self.entries[i].sizes[size].joined
        ):
            return False
        now = self.sizes[i]
        if now >= 0:
            return self.entries[i].sizes[size].shown > self.entries[i].sizes[now].shown
        # An entry named by the first of its place may still be shown whole.
        named = i in self.inside and i not in self.shown.get(self.inside[i], ())
        return (
            named
            and self.entries[i].sizes[size].tier is Tier.FULL
            and sum(s >= 0 for s in self.sizes) < self.room.entries
        )

    def _fits(self, i: int, size: int, quotas: Mapping[str, int]) -> bool:
        group, more = self.entries[i].group, self._cost(i, size)
        quota = quotas.get(group, self.room.tokens)
        if more <= 0:
            return True
        return (
            sum(self.spent.values()) + more <= self.room.tokens
            and self.spent.get(group, 0) + more <= quota
        )

    def _cost(self, i: int, size: int) -> int:
        """Tokens that changing `i` to `size` adds, including a head that is added or removed; negative for -1
        (leaving it out)."""
        entry, now = self.entries[i], self.sizes[i]
        to = entry.sizes[size] if size >= 0 else None
        before = entry.sizes[now] if now >= 0 else None
        cost = (to.tokens if to else 0) - (before.tokens if before else 0)
        left, needed = before.head if before else "", to.head if to else ""
        if needed != left:
            if needed and not self.under.get(needed):
                cost += self.heads.get(needed, 0)
            if left and len(self.under[left]) == 1:
                cost -= self.heads.get(left, 0)
        return cost

    def _take(self, i: int, size: int) -> None:
        entry, now = self.entries[i], self.sizes[i]
        self.spent[entry.group] = self.spent.get(entry.group, 0) + self._cost(i, size)
        if now >= 0 and (left := entry.sizes[now].head):
            self.under[left].discard(i)
        self.sizes[i] = size
        if size >= 0:
            self.inside.pop(i, None)
            if head := entry.sizes[size].head:
                self.under.setdefault(head, set()).add(i)

    def _replace(self, i: int, first: int) -> None:
        """Leave out `first`, which named the place of `i`, unless it shows source itself."""
        now = self.sizes[first]
        if now >= 0 and self.entries[first].sizes[now].tier is not Tier.FULL:
            self._take(first, -1)
            self.inside[first] = i

    def _leave_out(self, other: int, i: int, held: Collection[int]) -> None:
        """Leave out `other`, which `i` now contains, unless it shows text that `i` does not."""
        named = self.sizes[other] >= 0 or other in self.inside
        if not named or self.root(i) == other or not self.shown.get(other, set()) <= set(held):
            return
        if self.sizes[other] >= 0:
            self._take(other, -1)
        self.inside[other] = i
        self.shown.setdefault(i, set()).add(other)
