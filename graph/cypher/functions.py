"""What each allowed function makes of its arguments: the size of its value, and its work in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graph.cypher.sizes import (
    ENTITY,
    NAME,
    NAMES,
    NUMBER,
    REFERENCE,
    SCALAR,
    STORED,
    Kind,
    Size,
    joined,
    listed,
    number,
    text,
)
from graph.guard.words import TEMPORAL

Sizes = Sequence[Size]
Rule = Callable[[Sizes], Size]
BYTES_A_STEP = 64  # copied or compared in the time of one step


def value_of(name: str, arguments: Sizes) -> Size:
    """Names outside the table give numbers, truth values or times."""
    rule = _RULES.get(name)
    return rule(arguments) if rule is not None and arguments else NUMBER


def work_of(name: str, arguments: Sizes, value: Size) -> int:
    """Steps, without those of the arguments."""
    if name in _CONSTANT:
        return 1
    return 1 + (sum(a.mean for a in arguments) + value.mean) // BYTES_A_STEP


def _first(arguments: Sizes) -> Size:
    return arguments[0]


def _count(arguments: Sizes) -> Size:
    return number(0, characters(arguments[0]))


def characters(of: Size) -> int:
    """Of a text; of what may be one, a character a byte."""
    return of.bytes if of.kind is Kind.ANY else of.items


def _part(arguments: Sizes) -> Size:
    return arguments[0].part()


def _text(arguments: Sizes) -> Size:
    first = arguments[0]
    return Size(Kind.TEXT, characters(first), first.bytes, first.mean)


def _spelled(arguments: Sizes) -> Size:
    """toString(): of a list or map, which some servers spell out, with its quotes and commas."""
    first = arguments[0]
    if first.kind is Kind.NUMBER:
        return text(64)
    return Size(Kind.TEXT, first.bytes, 2 * first.bytes, 2 * first.mean)


def _left(arguments: Sizes) -> Size:
    """left(), right(): as many characters as the second argument says."""
    first = arguments[0]
    most = arguments[1].high if len(arguments) > 1 else None
    return _cut(first, most)


def _substring(arguments: Sizes) -> Size:
    return _cut(arguments[0], arguments[2].high if len(arguments) > 2 else None)


def _cut(of: Size, most: int | None) -> Size:
    if most is None:
        return _text([of])
    items = min(of.items, max(0, most))
    limit = SCALAR + 4 * items
    return Size(Kind.TEXT, items, min(of.bytes, limit), min(of.mean, limit))


def _split(arguments: Sizes) -> Size:
    first = arguments[0]
    items = characters(first) + 1
    piece = Size(Kind.TEXT, items, first.bytes, min(first.mean, 2 * SCALAR))
    own = SCALAR + items * (REFERENCE + SCALAR)
    return Size(Kind.LIST, items, first.bytes + own, first.mean + own, each=piece)


def _replace(arguments: Sizes) -> Size:
    """Every character, and the end, may become the third argument."""
    if len(arguments) < 3:
        return NUMBER
    first, _, put = arguments
    places = characters(first) + 1
    return Size(
        Kind.TEXT,
        places + places * characters(put),
        first.bytes + places * put.bytes,
        first.mean + min(places, first.mean) * put.mean,
    )


def _tail(arguments: Sizes) -> Size:
    return replace(arguments[0], fields=None)


def _keys(arguments: Sizes) -> Size:
    first = arguments[0]
    if first.kind is Kind.ENTITY:
        return NAMES
    return listed(first.items, Size(Kind.TEXT, first.bytes, first.bytes, min(first.bytes, 64)))


def _parts_of_path(arguments: Sizes) -> Size:
    return listed(arguments[0].items + 1, ENTITY)


_RULES: dict[str, Rule] = {
    "coalesce": joined,
    "nullif": _first,
    "min": _first,
    "max": _first,
    "sum": lambda _: NUMBER,
    "percentilecont": lambda _: NUMBER,
    "percentiledisc": _first,
    "head": _part,
    "last": _part,
    "tail": _tail,
    "reverse": _tail,
    "size": _count,
    "length": _count,
    "char_length": _count,
    "keys": _keys,
    "labels": lambda _: NAMES,
    "type": lambda _: NAME,
    "elementid": lambda _: NAME,
    "properties": lambda given: given[0] if given[0].kind is not Kind.ANY else STORED,
    "nodes": _parts_of_path,
    "relationships": _parts_of_path,
    "startnode": lambda _: ENTITY,
    "endnode": lambda _: ENTITY,
    "tostring": _spelled,
    "tostringornull": _spelled,
    "left": _left,
    "right": _left,
    "substring": _substring,
    "split": _split,
    "replace": _replace,
    "shortestpath": lambda _: Size(Kind.PATH, 32, 32 * ENTITY.bytes, 32 * ENTITY.mean),
    "allshortestpaths": lambda _: listed(
        1_000, Size(Kind.PATH, 32, 32 * ENTITY.bytes, 32 * ENTITY.mean)
    ),
} | dict.fromkeys(["trim", "ltrim", "rtrim", "tolower", "toupper", "lower", "upper"], _text)

_CONSTANT = TEMPORAL | frozenset(
    [
        "size",
        "length",
        "char_length",
        "head",
        "last",
        "coalesce",
        "nullif",
        "type",
        "id",
        "elementid",
        "startnode",
        "endnode",
        "exists",
        "isempty",
        "labels",
        "count",
        "collect",
        "nodes",
        "relationships",
        "properties",
    ]
)
