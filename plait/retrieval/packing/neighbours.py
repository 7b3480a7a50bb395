"""A chunk and its neighbours as one readable piece, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plait.domain.values import Collection, Item, ItemId
from plait.retrieval.packing.gaps import GAP, marked

# Lines between two chunks that are blank or a comment's: shown as one run.
NEAR_LINES = 2
# Around a method and what follows it, which a class's chunk leaves out.
BLANK_LINES = 4
# A method's own line stands in its class's chunk; decorators and comments may precede it in its own.
HEAD_LINES = 15


@dataclass(frozen=True, slots=True)
class Joined:
    """`spans`: first and last lines that are shown, ascending. `ids`: what was joined, without the item.
    `own`: the lines of the item itself, with its symbol's other parts that are joined; () without lines."""

    content: str
    spans: tuple[tuple[int, int], ...]
    ids: tuple[ItemId, ...] = ()
    own: tuple[tuple[int, int], ...] = ()


def alone(item: Item) -> Joined:
    """The item by itself."""
    spans = ((item.start_line, item.end_line),) if item.start_line else ()
    content = marked(item) if item.collection is Collection.FILES else item.content
    return Joined(content, spans, own=spans)


def join(item: Item, neighbours: Sequence[Item]) -> Joined:
    """`item` with those of `neighbours` that are of its file. A chunk that encloses others (a class, its
    methods cut down to their first lines) gets them in their places; a gap is a line with `⋮`."""
    if item.collection is not Collection.FILES:
        return alone(item)
    near = [
        other
        for other in neighbours
        if (other.repo, other.path) == (item.repo, item.path) and other.id != item.id
    ]
    parts = [part for part in near if part.symbol and base(part.symbol) == base(item.symbol)]
    whole, ids = _whole(item, parts)
    near = [part for part in near if part.id not in ids]
    outer = [part for part in (whole, *near) if any(_holds(part, o) for o in (whole, *near))]
    if outer:
        first = min(outer, key=lambda o: (o.start_line, -o.end_line))
        joined = _inside(first, whole, near)
    else:
        joined = _in_a_row(whole, near)
    own = ((whole.start_line, whole.end_line),)
    return replace(joined, ids=(*ids, *joined.ids), own=own)


def base(symbol: str) -> str:
    """A symbol without the number of its part."""
    return symbol.partition("#")[0]


def _whole(item: Item, parts: Sequence[Item]) -> tuple[Item, tuple[ItemId, ...]]:
    """`item` with the parts of its symbol that follow each other, as one chunk."""
    run = [item]
    for part in sorted(parts, key=lambda part: part.start_line):
        if 0 < part.start_line - run[-1].end_line <= NEAR_LINES + 1:
            run.append(part)
    for part in sorted(parts, key=lambda part: -part.start_line):
        if 0 < run[0].start_line - part.end_line <= NEAR_LINES + 1:
            run.insert(0, part)
    if len(run) == 1:
        return item, ()
    joined = _in_a_row(run[0], run[1:])
    whole = replace(
        item, content=joined.content, start_line=run[0].start_line, end_line=run[-1].end_line
    )
    return whole, tuple(part.id for part in run if part.id != item.id)


def _holds(outer: Item, inner: Item) -> bool:
    return (
        outer.id != inner.id
        and outer.start_line <= inner.start_line
        and inner.end_line <= outer.end_line
        and (outer.start_line, outer.end_line) != (inner.start_line, inner.end_line)
    )


def _inside(outer: Item, item: Item, near: Sequence[Item]) -> Joined:
    lines = marked(outer).split("\n")
    used: list[Item] = []
    done, last = 0, 0  # where the text of the one before ends, in `lines` and in the file
    for inner in sorted((p for p in (item, *near) if _holds(outer, p)), key=lambda p: p.start_line):
        body = inner.content.split("\n")
        at = next(
            (lines.index(head) for head in body[:HEAD_LINES] if head.strip() and head in lines), -1
        )
        if at >= 0:
            lines[at : at + 1 + (lines[at + 1 : at + 2] == [GAP])] = body
            at += _end(lines, done, at, inner.start_line - last - 1) if used else 0
            used.append(inner)
            done, last = at + len(body), inner.end_line
    if item.id not in {outer.id, *(part.id for part in used)}:
        return _in_a_row(item, [part for part in near if part.id != outer.id])
    _end(lines, done, len(lines), outer.end_line - last)
    ids = tuple(part.id for part in (outer, *used) if part.id != item.id)
    return Joined("\n".join(lines), ((outer.start_line, outer.end_line),), ids)


def _end(lines: list[str], done: int, at: int, between: int) -> int:
    """Mark that the text which ends at `done` is only the first part of its symbol: until `at`, where
    `between` lines stand in the file, there are far fewer. The lines put in."""
    if not 0 < done <= at or GAP in lines[done:at] or between - (at - done) <= BLANK_LINES:
        return 0
    lines.insert(done, GAP)
    return 1


def _in_a_row(item: Item, near: Sequence[Item]) -> Joined:
    parts = [item]
    for part in near:
        # What overlaps would show lines twice.
        if all(part.end_line < p.start_line or p.end_line < part.start_line for p in parts):
            parts.append(part)
    parts.sort(key=lambda part: part.start_line)
    content = parts[0].content
    spans = [(parts[0].start_line, parts[0].end_line)]
    for part in parts[1:]:
        first, last = spans[-1]
        gap = part.start_line - last - 1
        if gap <= NEAR_LINES:
            content = f"{content}\n{chr(10) * gap}{part.content}"
            spans[-1] = (first, part.end_line)
        else:
            content = f"{content}\n{GAP}\n{part.content}"
            spans.append((part.start_line, part.end_line))
    return Joined(content, tuple(spans), tuple(p.id for p in parts if p.id != item.id))
