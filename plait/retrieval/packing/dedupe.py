"""What would say the same twice: equal texts, a chunk inside another's lines, a memory that repeats code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plait.domain.values import Collection, Item, ItemId

# Share of a text's telling lines that shown code has already. Chosen by hand: what a memory adds to
# its code is at least one line in five.
REPEATED = 0.8
MIN_LINE = 8  # characters from which a line tells anything
MAX_LINES = 400  # of one text that are compared


def same_text(items: Sequence[Item]) -> dict[ItemId, ItemId]:
    """By id of each later item the earlier one that has its words, in their order."""
    seen: dict[object, ItemId] = {}
    repeats: dict[ItemId, ItemId] = {}
    for item in items:
        key = _key(item)
        first = seen.setdefault(key, item.id)
        if first != item.id:
            repeats[item.id] = first
    return repeats


def _key(item: Item) -> object:
    """Code is equal only where it stands: two files may have the same function, and both may matter."""
    if item.collection is Collection.FILES:
        return (item.repo, item.path, item.start_line, item.end_line, item.content)
    words = "".join(c if c.isalnum() else " " for c in item.content.casefold()).split()
    return (item.repo, tuple(words)) if words else item.content


def shown_twice(
    shown: Mapping[ItemId, str], items: Mapping[ItemId, Item], also: Iterable[ItemId] = ()
) -> dict[ItemId, ItemId]:
    """Of items, by id the code that has their text already. `shown`: code as it is shown whole, best
    first; `also`: what is shown inside of others."""
    inside = set(also)
    lines = {id_: _lines(text) for id_, text in shown.items()}
    repeats: dict[ItemId, ItemId] = {}
    for id_, item in items.items():
        if id_ in inside:
            continue
        own = _lines(item.content)
        for other, theirs in lines.items():
            if other == id_ or other in repeats or not own:
                continue
            if _inside(item, items[other], own, theirs) or (
                item.collection is not Collection.FILES and len(own & theirs) >= REPEATED * len(own)
            ):
                repeats[id_] = other
                break
    return repeats


def _inside(item: Item, other: Item, own: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether the text of `item`, a chunk, stands in that of `other`."""
    return (
        item.collection is Collection.FILES
        and (item.repo, item.path) == (other.repo, other.path)
        and other.start_line <= item.start_line
        and item.end_line <= other.end_line
        and own <= theirs
        and len(own) < len(theirs)
    )


def _lines(text: str) -> frozenset[str]:
    found = (line.strip() for line in text.split("\n", MAX_LINES)[:MAX_LINES])
    return frozenset(line for line in found if len(line) >= MIN_LINE)
