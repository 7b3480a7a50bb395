"""Mark where lines are left out of a chunk: the chunk of a class has the first line of each method, not its body.

A chunk's line numbers tell how many lines it leaves out, not where. A gap is assumed after the first line of a
definition that is not followed by its body. Languages are grouped as for outlines; text other than code has no gaps.
"""

from __future__ import annotations

import re

from plait.domain.values import Item
from plait.retrieval.packing.outline import COLON, LINE_ENDS

GAP = "⋮"

_DEF = re.compile(r"\s*(?:async\s+def|def|class|cdef|cpdef|proc|func)\s+\w")
_BEGIN = re.compile(r"\s*(?:(?:local|private|public)\s+)?(?:def|class|module|function|sub|defp)\b")
_DONE = re.compile(r"\bend\b|^[^(=]*(?:\([^()]*\))?\s*=\s")
_COMMENT = ("//", "/*", "*", "#", "@", "[", "--")
# A type and a name before the brackets, as where the block's brace has a line of its own.
_TYPED = re.compile(r"[\w>\]*&?]\s+[*&]*[\w:~]+\s*\(.*\)[\w\s]*$")
_CLOSERS = ("}", ")", "]", "end", "{")


def marked(item: Item) -> str:
    """The text of `item` with a line `⋮` at each gap."""
    lines = item.content.split("\n")
    left_out = item.end_line - item.start_line + 1 - len(lines)
    if item.start_line < 1 or left_out < 1 or item.kind == "doc":
        return item.content
    out: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        out.append(line)
        if left_out and _cut(line, after, item.language):
            out.append(GAP)
            left_out -= 1
    return "\n".join(out)


def _cut(line: str, after: str, language: str) -> bool:
    """Whether `line` begins a definition whose lines don't follow. `after`: the next line, "" for none."""
    bare = line.rstrip()
    if not bare or (after.strip() and _indent(after) > _indent(line)):
        return False
    if language in COLON:
        return bool(_DEF.match(line)) and bare.split("  #")[0].rstrip().endswith(
            (":", "(", "[", ",")
        )
    if after.strip().startswith(_CLOSERS) and _indent(after) == _indent(line):
        return False
    if language in LINE_ENDS:
        return bool(_BEGIN.match(line)) and not _DONE.search(bare)
    if bare.lstrip().startswith(_COMMENT):
        return False
    return bare.endswith(("{", "(", "=>")) or bool(_TYPED.search(bare[-400:]))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
