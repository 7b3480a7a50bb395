"""How large a value can be: upper bounds that are added, joined and multiplied before a query runs.

Values from the store have no bound that the text shows. For them stand figures of the projection: no
text is longer than STORED_BYTES (an episode's summary), names are short, and what `collect()` gathers has
as many items as its rows, UNKNOWN_ROWS where those come from a MATCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from plait.domain.graph import Label, Relation

UNKNOWN_ROWS = 10_000  # of a MATCH: an estimate; its rows can be stopped, so that more do no harm
STORED_BYTES = 16_384
STORED_ITEMS = 500  # a stored list: the call sites of one edge
REFERENCE = 16  # bytes of a list's or map's entry besides the value
SCALAR = 16


class Kind(Enum):
    NUMBER = auto()  # and truth values, null, times
    TEXT = auto()
    LIST = auto()
    MAP = auto()
    ENTITY = auto()  # a node or a relationship
    PATH = auto()
    ANY = auto()


@dataclass(frozen=True, slots=True)
class Size:
    """Upper bounds of a value. `items`: of a list, characters of a text, entries of a map, hops of a path.
    `bytes`: with all that is in it. `mean`: bytes on average where many such values come from the store;
    equal to `bytes` where a text or parameter decides it. `each`: an item of the list. `fields`: of a map
    whose keys are known. `low`, `high`: of a whole number; None: not known. `open`: a list out of the store or of its
    rows, whose length is an estimate."""

    kind: Kind
    items: int = 1
    bytes: int = SCALAR
    mean: int = SCALAR
    each: Size | None = None
    fields: Mapping[str, Size] | None = None
    low: int | None = None
    high: int | None = None
    open: bool = False

    def part(self) -> Size:
        """Any value that is in this one: no larger than the whole."""
        if self.each is not None:
            return self.each
        if self.fields:
            return joined(self.fields.values())
        if self.kind is Kind.NUMBER:
            return self
        if self.kind is Kind.ENTITY:
            return STORED
        return replace(self, kind=Kind.ANY, fields=None, low=None, high=None)

    def field(self, name: str) -> Size:
        """What `value.name` can be."""
        if self.kind is Kind.ENTITY:
            return stored(name)
        if self.fields is not None:
            return self.fields.get(name, NULL)
        if self.kind in (Kind.MAP, Kind.ANY):
            return self.part()
        return NUMBER  # a part of a time; other values have none


NUMBER = Size(Kind.NUMBER)
NULL = NUMBER
TRUTH = NUMBER
STORED = Size(Kind.ANY, STORED_ITEMS, STORED_BYTES, 100, open=True)
NAME = Size(Kind.TEXT, 256, 1_024, 64)
NAMES = Size(Kind.LIST, 32, 32 * 64, 256, each=NAME)
ENTITY = Size(Kind.ENTITY, 32, 2 * STORED_BYTES, 400)
# A value of which the text shows nothing: a name that is not declared.
UNKNOWN = Size(Kind.ANY, UNKNOWN_ROWS, STORED_BYTES * 64, STORED_BYTES * 64)

_NUMBERS = frozenset(
    [
        "start_line",
        "end_line",
        "confidence",
        "importance",
        "pinned",
        "version",
        "link_id",
        "state",
        "started_at",
        "created_at",
        "recorded_at",
        "superseded_at",
        "size",
        "valid_from",
        "valid_to",
        "recorded_from",
        "recorded_to",
    ]
)
_NAMES = frozenset(
    [
        "id",
        "name",
        "qualified_name",
        "path",
        "language",
        "kind",
        "repo",
        "resolver",
        "status",
        "type",
        "source",
        "agent_id",
        "session_key",
        "commit",
        "branch",
    ]
)
_LISTS = {
    "lines": Size(Kind.LIST, STORED_ITEMS, STORED_ITEMS * 32, 100, each=NUMBER, open=True),
    "tags": Size(Kind.LIST, STORED_ITEMS, STORED_ITEMS * 80, 100, each=NAME, open=True),
}
# What `CALL db.labels()` and its like answer with: of the schema, the same on every server.
INTROSPECTED: Mapping[str, tuple[str, ...]] = {
    "db.labels": tuple(sorted(Label)),
    "db.relationshiptypes": tuple(sorted(Relation)),
    "db.propertykeys": tuple(sorted(_NUMBERS - {"size"} | _NAMES | _LISTS.keys() | {"summary"})),
}


def stored(name: str) -> Size:
    """A property of a node or relationship, as the projection writes it."""
    if name in _NUMBERS:
        return NUMBER
    if name in _NAMES:
        return NAME
    return _LISTS.get(name, STORED)


def number(low: int | None, high: int | None) -> Size:
    return Size(Kind.NUMBER, low=low, high=high)


def text(characters: int, total: int | None = None, mean: int | None = None) -> Size:
    size = characters if total is None else total
    return Size(Kind.TEXT, characters, SCALAR + size, SCALAR + (size if mean is None else mean))


def listed(items: int, each: Size) -> Size:
    """A list of up to `items` values like `each`."""
    total = SCALAR + items * (each.mean + REFERENCE)
    return Size(Kind.LIST, items, total, total, each=each)


def mapped(fields: Mapping[str, Size]) -> Size:
    own = SCALAR + sum(len(key) + REFERENCE for key in fields)
    return Size(
        Kind.MAP,
        len(fields),
        own + sum(field.bytes for field in fields.values()),
        own + sum(field.mean for field in fields.values()),
        fields=dict(fields),
    )


def literal_list(values: Sequence[Size]) -> Size:
    own = SCALAR + REFERENCE * len(values)
    return Size(
        Kind.LIST,
        len(values),
        own + sum(value.bytes for value in values),
        own + sum(value.mean for value in values),
        each=joined(values),
    )


def joined(sizes: Iterable[Size]) -> Size:
    """What is as large as the largest of these."""
    out: Size | None = None
    for size in sizes:
        out = size if out is None else _join(out, size)
    return out or NULL


def _join(a: Size, b: Size) -> Size:
    if a is b or a == b:
        return a
    kind = a.kind if a.kind is b.kind else _one_kind(a, b)
    fields = None
    if a.fields is not None and b.fields is not None:
        fields = {
            key: joined([a.fields.get(key, NULL), b.fields.get(key, NULL)])
            for key in {**a.fields, **b.fields}
        }
    return Size(
        kind,
        max(a.items, b.items),
        max(a.bytes, b.bytes),
        max(a.mean, b.mean),
        each=_each(a, b),
        fields=fields,
        low=None if a.low is None or b.low is None else min(a.low, b.low),
        high=None if a.high is None or b.high is None else max(a.high, b.high),
        open=a.open or b.open,
    )


def _one_kind(a: Size, b: Size) -> Kind:
    """Null goes with everything; other mixtures are anything."""
    if a == NULL:
        return b.kind
    return a.kind if b == NULL else Kind.ANY


def _each(a: Size, b: Size) -> Size | None:
    """The items of either; a value without known items may be a list of parts of itself."""
    if a.each is None and b.each is None:
        return None
    parts = [s.part() for s in (a, b) if s.kind not in (Kind.NUMBER, Kind.TEXT)]
    return joined(parts)


def added(a: Size, b: Size) -> Size:
    """`a + b`: numbers add, texts and lists are joined; what may be either is as large as both."""
    if a.kind is Kind.NUMBER and b.kind is Kind.NUMBER:
        return number(_sum(a.low, b.low), _sum(a.high, b.high))
    total, mean = a.bytes + b.bytes + REFERENCE, a.mean + b.mean + REFERENCE
    if Kind.LIST in (a.kind, b.kind):
        items = sum(s.items if s.kind in (Kind.LIST, Kind.ANY) else 1 for s in (a, b))
        each = joined(s.part() if s.kind is Kind.LIST else s for s in (a, b))
        if Kind.ANY in (a.kind, b.kind):
            each = joined([each, *(s.part() for s in (a, b))])
        return Size(Kind.LIST, items, total, mean, each=each, open=a.open or b.open)
    kind = Kind.TEXT if Kind.TEXT in (a.kind, b.kind) else Kind.ANY
    inside = joined([a.part(), b.part()]) if a.each or b.each else None
    texts = sum(s.items if s.kind is not Kind.NUMBER else 32 for s in (a, b))
    return Size(kind, texts, total, mean, each=inside, open=a.open or b.open)


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def of_value(value: Any) -> Size:
    """The size of a parameter, exactly."""
    if isinstance(value, bool) or value is None or isinstance(value, float):
        return NUMBER
    if isinstance(value, int):
        return number(value, value)
    if isinstance(value, (str, bytes)):
        return text(len(value))
    if isinstance(value, Mapping):
        return mapped({str(key): of_value(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return _of_list(value)
    return NUMBER


def _of_list(values: Sequence[Any]) -> Size:
    """The short cut is for what most lists hold: thousands of whole numbers, or of texts."""
    kinds = {type(value) for value in values}
    if kinds == {int}:
        each = number(min(values), max(values))
    elif kinds == {str}:
        each = text(max(map(len, values)))
    else:
        return literal_list([of_value(item) for item in values])
    total = SCALAR + REFERENCE * len(values)
    total += (
        sum(map(len, values)) + SCALAR * len(values) if kinds == {str} else SCALAR * len(values)
    )
    return Size(Kind.LIST, len(values), total, total, each=each)
