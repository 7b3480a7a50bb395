"""Find repeated content: equal texts, a chunk inside another's lines, a memory that quotes code."""

from __future__ import annotations

from collections.abc import Sequence

from plait.domain.values import Collection, Item, ItemId
from plait.retrieval.packing.piece import Body
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.packing
MIN_LINE = 8  # shorter lines (brackets, `else:`) are not compared
MAX_LINES = 400  # of one text, compared


def same_text(items: Sequence[Item]) -> dict[ItemId, ItemId]:
    """By id of each later item, the earlier item with the same sequence of words."""
    seen: dict[object, ItemId] = {}
    repeats: dict[ItemId, ItemId] = {}
    for item in items:
        key = _key(item)
        first = seen.setdefault(key, item.id)
        if first != item.id:
            repeats[item.id] = first
    return repeats


def _key(item: Item) -> object:
    """Code repeats only at the same location: two files may hold the same function, and both may matter."""
    if item.collection is Collection.FILES:
        return (item.repo, item.path, item.start_line, item.end_line, item.content)
    words = "".join(c if c.isalnum() else " " for c in item.content.casefold()).split()
    return (item.repo, tuple(words)) if words else item.content


class Coverage:
    """Which of `items` a piece of code contains when it is shown whole. The lines of an item are split once."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._lines: dict[int, frozenset[str]] = {}
        self._near: dict[tuple[str, str], list[int]] = {}
        self._written: list[int] = []
        for i, item in enumerate(items):
            if item.collection is Collection.FILES:
                self._near.setdefault((item.repo, item.path), []).append(i)
            else:
                self._written.append(i)
        self._index = {item.id: i for i, item in enumerate(items)}

    def by(self, i: int, body: Body) -> set[int]:
        """Indices of the other items that `body` of item `i` contains: chunks of its file, and agents' items that
        quote it."""
        item = self._items[i]
        if item.collection is not Collection.FILES or not body.block:
            return set()
        held = {self._index[id_] for id_ in body.joined.ids if id_ in self._index}
        lines = _lines(body.block)
        for other in self._near[item.repo, item.path]:
            if other != i and _inside(
                self._items[other], body.joined.spans, self._own(other), lines
            ):
                held.add(other)
        for other in self._written:
            own = self._own(other)
            if own and len(own & lines) >= WEIGHTS.repeated * len(own):
                held.add(other)
        return held

    def _own(self, i: int) -> frozenset[str]:
        if i not in self._lines:
            self._lines[i] = _lines(self._items[i].content)
        return self._lines[i]


def _inside(
    item: Item, spans: Sequence[tuple[int, int]], own: frozenset[str], theirs: frozenset[str]
) -> bool:
    """Whether the chunk `item` is contained in the shown part of its file: lines `theirs`, at `spans`."""
    there = any(first <= item.start_line and item.end_line <= last for first, last in spans)
    return there and bool(own) and own <= theirs and len(own) < len(theirs)


def _lines(text: str) -> frozenset[str]:
    found = (line.strip() for line in text.split("\n", MAX_LINES)[:MAX_LINES])
    return frozenset(line for line in found if len(line) >= MIN_LINE)
