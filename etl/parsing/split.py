"""Cut long text where it comes apart by itself: at low indentation, behind blank lines, at headings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil

# (line index, text) in order; indices may jump: what lies between belongs to other chunks.
Row = tuple[int, str]

# A line that goes on what the line before began is a bad place to cut.
_GOES_ON = re.compile(r"[)\]}]|(?:else|elif|except|finally|catch|rescue|case|then|end)\b")
_MAY_GO_ON = frozenset(")]}efcrt")  # how such a line begins

_ATX = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_RULE = re.compile(r"([=\-~^\"'`:.*+#_])\1{2,}\s*$")


def split_rows(rows: Sequence[Row], limit: int) -> list[list[Row]]:
    """`rows` in parts of about equal size, each at most `limit` characters.

    A line longer than `limit` is cut in itself; its pieces keep its index.
    """
    sizes = [len(text) + 1 for _, text in rows]
    if max(sizes, default=0) > limit:
        rows = [piece for row in rows for piece in _cut_row(row, limit)]
        sizes = [len(text) + 1 for _, text in rows]
    parts = []
    start, left = 0, sum(sizes)
    while left > limit:
        target = left / ceil(left / limit)
        low, high = _window(sizes, start, target, limit)
        cut = max(range(low, high), key=lambda k: _fitness(rows, k), default=high)
        parts.append(list(rows[start:cut]))
        left -= sum(sizes[start:cut])
        start = cut
    parts.append(list(rows[start:]))
    return parts


def _window(sizes: Sequence[int], start: int, target: float, limit: int) -> tuple[int, int]:
    """Where the next part may end: from 0.6 to 1.2 of `target`, at least one line, within `limit`."""
    size, low, end = 0, 0, start
    top = min(float(limit), 1.2 * target)
    while end < len(sizes) and size + sizes[end] <= top:
        size += sizes[end]
        end += 1
        if not low and size >= 0.6 * target:
            low = end
    end = max(end, start + 1)
    return min(low or end, end), end + 1 if end < len(sizes) else end


def _fitness(rows: Sequence[Row], k: int) -> tuple[bool, bool, int, bool, int]:
    """How good it is to begin a part at row `k`; the larger the better, later wins ties."""
    text = rows[k][1]
    bare = text.lstrip()
    before = rows[k - 1][1]
    indent = len(text) - len(bare)
    goes_on = bare[:1] in _MAY_GO_ON and _GOES_ON.match(bare) is not None
    return (bool(bare), not goes_on, -indent, not before or before.isspace(), k)


def _cut_row(row: Row, limit: int) -> Iterator[Row]:
    """Pieces of at most `limit - 1` characters, cut behind a space or punctuation when one is near."""
    index, text = row
    size = limit - 1
    start = 0
    while len(text) - start > size:
        cut = end = start + size
        for k in range(end, end - size // 2, -1):
            if not (text[k - 1].isalnum() or text[k - 1] == "_"):
                cut = k
                break
        yield index, text[start:cut]
        start = cut
    yield index, text[start:]


def sections(lines: Sequence[str], *, markdown: bool) -> list[tuple[int, int]]:
    """Half-open ranges of `lines`, each from one heading to the next, in order and without gaps."""
    starts = _markdown_headings(lines) if markdown else _underlined(lines)
    marks = sorted({0, *starts, len(lines)})
    return list(pairwise(marks))


def _markdown_headings(lines: Sequence[str]) -> Iterator[int]:
    fence = ""
    for i, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and _ATX.match(line):
            yield i


def _underlined(lines: Sequence[str]) -> Iterator[int]:
    """reStructuredText titles: a line, and below it a rule at least as long (maybe one above, too)."""
    for i in range(1, len(lines)):
        rule = lines[i]
        if not rule or rule[0].isalnum() or rule[0].isspace() or not _RULE.match(rule):
            continue
        title = lines[i - 1]
        if not title.strip() or _RULE.match(title) or len(title.rstrip()) > len(rule.rstrip()):
            continue
        above = i >= 2 and lines[i - 2].rstrip() == rule.rstrip()
        yield i - 2 if above else i - 1
