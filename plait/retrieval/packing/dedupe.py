"""What would say the same twice: equal texts, a chunk inside another's lines, a memory that repeats code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def shown_twice(shown: Mapping[ItemId, str], items: Mapping[ItemId, Item]) -> dict[ItemId, ItemId]:
    """Of items, by id the code that has their text already. `shown`: code as it is shown whole, best
    first. Chunks are compared inside their file only, what agents wrote with all."""
    by_file: dict[tuple[str, str], list[ItemId]] = {}
    for id_ in shown:
        by_file.setdefault((items[id_].repo, items[id_].path), []).append(id_)
    lines: dict[ItemId, frozenset[str]] = {}
    repeats: dict[ItemId, ItemId] = {}
    for id_, item in items.items():
        is_code = item.collection is Collection.FILES
        others = by_file.get((item.repo, item.path), []) if is_code else list(shown)
        if not others or others == [id_]:
            continue
        own = _lines(item.content)
        for other in others:
            if other == id_ or other in repeats or not own:
                continue
            if other not in lines:
                lines[other] = _lines(shown[other])
            theirs = lines[other]
            if _inside(item, items[other], own, theirs) or (
                not is_code and len(own & theirs) >= REPEATED * len(own)
            ):
                repeats[id_] = other
                break
    return repeats


def _inside(item: Item, other: Item, own: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether the text of `item`, a chunk, stands in that of `other`, of the same file."""
    return (
        item.collection is Collection.FILES
        and other.start_line <= item.start_line
        and item.end_line <= other.end_line
        and own <= theirs
        and len(own) < len(theirs)
    )


def _lines(text: str) -> frozenset[str]:
    found = (line.strip() for line in text.split("\n", MAX_LINES)[:MAX_LINES])
    return frozenset(line for line in found if len(line) >= MIN_LINE)
