"""Definitions where the parser gave up: by the first line of each, and by indentation.

A grammar that meets what it does not know (a macro, a new syntax, an `#if` through the middle of a
block) may call half a file one error. What is defined there still begins with a line that looks like
it, and ends before the next line that is not indented further. Strings that hold code deceive this, so
it reads nothing else.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TAB = 4
_LINES = 50_000  # of a file that are looked at
_LONG = 300  # bytes: a longer line is no definition's first
_OPENS = (b"{", b"(", b"[", b"=", b":", b",", b"->", b"=>", b"do", b"then")
# A line that belongs to the block above it although it is not indented further; a label is one.
_GOES_ON = re.compile(
    rb"[{)\]}]|(?:end|where|else|throws|case|default)\b|:\s|(?:\w+ +)*constructor\b|\w+ ?:$"
)
_ABOVE = re.compile(rb"//|/\*|\*|#\[|@|\[\w|--|#[^idel]")
_DIRECTIVE = re.compile(rb"#\s*(?:if|elif|else|endif|elseif|region|endregion|pragma|define)\b")


Heads = Sequence[tuple[str, re.Pattern[bytes]]]


class Head(NamedTuple):
    """A definition found by its first line. Bytes are of the whole source."""

    name: str
    kind: str
    line: int  # index of the line that names it
    start: int  # comments and attributes above included
    at: int  # where that line begins
    end: int


class _Line(NamedTuple):
    start: int
    lead: int  # bytes of white space
    text: bytes  # without what is around it
    indent: int  # columns


class Lines:
    """A source by its lines, read once a file, and only when the parser met errors."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._rows = _rows(source)
        self._starts = [row.start for row in self._rows]
        self._closing = _closing(self._rows)

    def heads(self, begin: int, end: int, patterns: Heads) -> Iterator[Head]:
        """The definitions whose first line begins in `[begin, end)`, outer ones before those inside.

        `patterns`: a kind, and what a first line of that kind looks like, with the group `name`.
        """
        for number in range(self._row(begin), len(self._rows)):
            row = self._rows[number]
            if row.start >= end:
                break
            if row.start + row.lead < begin or len(row.text) > _LONG:
                continue
            for kind, pattern in patterns:
                found = pattern.match(row.text)
                if found is None:
                    continue
                start = self._rows[_above(self._rows, number)].start
                name = found["name"].decode("utf-8", "replace")
                yield Head(name, kind, number, start, row.start, self._end(self._closing[number]))
                break

    def end_of(self, byte: int) -> int:
        """Where the block ends, by indentation, that the line of `byte` begins."""
        return self._end(self._closing[self._row(byte)])

    def _row(self, byte: int) -> int:
        return min(max(bisect_right(self._starts, byte) - 1, 0), len(self._rows) - 1)

    def _end(self, number: int) -> int:
        row = self._rows[number]
        return row.start + row.lead + len(row.text)


def _rows(source: bytes) -> list[_Line]:
    rows = []
    start = 0
    for text in source.split(b"\n", _LINES)[:_LINES]:
        bare = text.strip()
        lead = len(text) - len(text.lstrip()) if bare else 0
        indent = lead + (_TAB - 1) * text.count(b"\t", 0, lead)
        rows.append(_Line(start, lead, bare, indent))
        start += len(text) + 1
    return rows


def _closing(rows: Sequence[_Line]) -> list[int]:
    """For each line, the last one of the block that it begins. One pass: blocks close from the inside."""
    ends = list(range(len(rows)))
    open_: list[int] = []  # lines whose block goes on, their indentation ascending
    last = 0  # the last line with text
    for number, row in enumerate(rows):
        if not row.text or _DIRECTIVE.match(row.text):
            continue
        while open_ and rows[open_[-1]].indent > row.indent:
            ends[open_.pop()] = last
        if open_ and rows[open_[-1]].indent == row.indent:
            if _GOES_ON.match(row.text):
                ends[open_[-1]] = number
                if not row.text.endswith(_OPENS):
                    open_.pop()
                last = number
                continue
            ends[open_.pop()] = last
        open_.append(number)
        last = number
    for number in open_:
        ends[number] = last
    return ends


def _above(rows: Sequence[_Line], number: int) -> int:
    """The first of the comments and attributes right above a line, or the line."""
    indent = rows[number].indent
    while number and (above := rows[number - 1]).text and _ABOVE.match(above.text):
        if above.indent not in (indent, indent + 1):
            break
        number -= 1
    return number
