"""Which functions a hunk touches, by its own lines: in the file as it was before the hunk or after it.

Line numbers alone lie as soon as the index and the diff are of different days, so a hunk is first
found in the file by its text; numbers and the heading decide only between equal places. Where the text
is not found well enough, nothing is claimed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

MAX_HUNK_LINES = 2_000  # a longer hunk touches its file only
MAX_PLACES = 20  # a line that occurs more often is not distinctive
# Of the hunk's telling lines that stand where the file's text is known. Guessed, on the safe side: an
# edit near the hunk since then changes a line or two of the usual seven.
MIN_MATCH = 0.6

_DISTINCTIVE = re.compile(r"\w\W*\w\W*\w")  # three word characters: not a brace, not `else:` alone
_WORD = re.compile(r"[^\W\d]\w{0,199}")


@dataclass(frozen=True, slots=True)
class Span:
    """A function's lines, 1-based and inclusive; from the line of its `def`."""

    symbol: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of an index: its lines as far as they are known, by number, and its functions."""

    lines: Mapping[int, str]
    spans: Sequence[Span]
    places: Mapping[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Mapping[int, str], spans: Iterable[Span]) -> SourceFile:
        places: dict[str, list[int]] = {}
        for number, line in lines.items():
            text = line.strip()
            if _DISTINCTIVE.search(text):
                places.setdefault(text, []).append(number)
        return cls(lines, sorted(spans, key=lambda s: (s.start, -s.end)), places)


@dataclass(frozen=True, slots=True)
class Location:
    """Where one side of a hunk begins in a file. `matched` of the `compared` distinctive lines agree."""

    start: int
    matched: int
    compared: int
    missing: str  # the sign of the lines that the file does not have

    @property
    def share(self) -> float:
        return self.matched / self.compared if self.compared else 0.0


def functions(
    lines: Sequence[str], old_start: int, new_start: int, heading: str, file: SourceFile
) -> list[str]:
    """Symbols of the functions whose lines the hunk changes, in the order of the file. Empty: the
    change is outside functions, or its location is uncertain.

    `lines` have their ' ', '-' or '+'.
    """
    if len(lines) > MAX_HUNK_LINES or not file.spans:
        return []
    after = _locate([x[1:] for x in lines if x[0] != "-"], new_start, heading, "-", file)
    before = _locate([x[1:] for x in lines if x[0] != "+"], old_start, heading, "+", file)
    found = [location for location in (after, before) if location is not None]
    if not found:
        return _by_heading(lines, heading, file)
    best = max(found, key=lambda p: (p.share, p.matched))
    touched = _touched(lines, best, file)
    order = {span.symbol: n for n, span in enumerate(file.spans)}
    return sorted(touched, key=order.__getitem__)


def _locate(
    side: Sequence[str], start: int, heading: str, missing: str, file: SourceFile
) -> Location | None:
    """The one location of `side` in `file`; None when there is none or it is uncertain."""
    texts = [line.strip() for line in side]
    votes: Counter[int] = Counter({start: 0})
    for n, text in enumerate(texts):
        places = file.places.get(text, ())
        if len(places) <= MAX_PLACES:
            votes.update(number - n for number in places)
    tried = {begin for begin, _ in votes.most_common(8)} | {start}
    found = [_compare(texts, begin, missing, file) for begin in sorted(tried)]
    good = [p for p in found if p.share >= MIN_MATCH and _enough(p, start, file, texts)]
    if not good:
        return None
    best = max((p.share, p.matched) for p in good)
    equal = [p for p in good if (p.share, p.matched) == best]
    if len(equal) == 1:
        return equal[0]
    return _decide(equal, start, heading, file)


def _compare(texts: Sequence[str], begin: int, missing: str, file: SourceFile) -> Location:
    matched = compared = 0
    for n, text in enumerate(texts, start=begin):
        there = file.lines.get(n)
        if there is None or not _DISTINCTIVE.search(text):
            continue
        compared += 1
        matched += there.strip() == text
    return Location(begin, matched, compared, missing)


def _enough(location: Location, start: int, file: SourceFile, texts: Sequence[str]) -> bool:
    """Two distinctive lines, or one that is at the line of the diff or occurs nowhere else."""
    if location.matched >= 2:
        return True
    if location.matched == 0:
        return False
    alone = any(len(file.places.get(text, ())) == 1 for text in texts)
    return location.start == start or alone


def _decide(
    equal: Sequence[Location], start: int, heading: str, file: SourceFile
) -> Location | None:
    """Of locations that match equally well: the line of the diff, or the one under its heading."""
    for location in equal:
        if location.start == start:
            return location
    under = [p for p in equal if _heads(heading, _inside(file.spans, p.start, p.start))]
    return under[0] if len(under) == 1 else None


def _heads(heading: str, span: Span | None) -> bool:
    return span is not None and _own_name(span.symbol) in _WORD.findall(heading)


def _touched(lines: Sequence[str], location: Location, file: SourceFile) -> set[str]:
    """Functions that hold a changed line, or the gap where changed lines are missing."""
    out: set[str] = set()
    number = location.start
    for changed, group in groupby(lines, key=lambda line: line[0] != " "):
        block = list(group)
        if changed:
            out |= _touched_by(block, number, location.missing, file)
        number += sum(line[0] != location.missing for line in block)
    return out


def _touched_by(block: Sequence[str], number: int, missing: str, file: SourceFile) -> set[str]:
    """Of lines that change together, the first that is there being line `number`."""
    there: set[Span] = set()
    gaps: set[Span] = set()
    for line in block:
        if line[0] == missing:
            span = _at_gap(file, number, line[1:])
        else:
            span = _inside(file.spans, number, number)
            number += 1
        if span is not None and line[1:].strip():
            (gaps if line[0] == missing else there).add(span)
    # A line that was replaced was where its replacement is, not in what is round both.
    gaps = {g for g in gaps if not any(g.start <= t.start and t.end <= g.end for t in there)}
    return {span.symbol for span in there | gaps}


def _at_gap(file: SourceFile, below: int, text: str) -> Span | None:
    """The function that a line between `below - 1` and `below` would be in: one round both, or one
    that ends there, if the line is indented deeper than its head."""
    around = _inside(file.spans, below - 1, below)
    ending = _inside(file.spans, below - 1, below - 1)
    if ending is not None and ending != around and ending.end == below - 1:
        head = file.lines.get(ending.start)
        if head is not None and _indent(text) > _indent(head):
            return ending
    return around


def _inside(spans: Sequence[Span], first: int, last: int) -> Span | None:
    """The innermost span that holds both lines: of those that do, the last to begin."""
    best = None
    for span in spans:
        if span.start > first:
            break
        if span.end >= last:
            best = span
    return best


def _by_heading(lines: Sequence[str], heading: str, file: SourceFile) -> list[str]:
    """The function that the heading names, if one does and a distinctive line of the hunk is in it and
    nowhere else."""
    words = set(_WORD.findall(heading))
    named = [span for span in file.spans if _own_name(span.symbol) in words]
    if len(named) != 1:
        return []
    span = named[0]
    for line in lines:
        places = file.places.get(line[1:].strip(), ())
        if len(places) == 1 and span.start < places[0] <= span.end:
            return [span.symbol]
    return []


def _own_name(symbol: str) -> str:
    return re.split(r"[.:/#@]", symbol.partition("@")[0])[-1]


def _indent(line: str) -> int:
    text = line.expandtabs(4)
    return len(text) - len(text.lstrip())
