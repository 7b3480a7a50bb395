"""Removes recalled text from a turn, so that a recall is not stored again as new text.

A recalled block is a heading `## Relevant Memories` with its lists, text indented under them or that
follows without an empty line, and deeper headings. It ends at the first other paragraph. Bullets
`- [score: 0.85] …` are recalled text anywhere.
"""

from __future__ import annotations

import re

HEADING = "Relevant Memories"

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.{1,200}?)[ \t#]*$")
_BULLET = re.compile(r"[ \t>]*[-*•][ \t]+\[score:[ \t]*[0-9.]{1,12}\]", re.IGNORECASE)
_LIST = re.compile(r"[ \t>]*(?:[-*•+]|[0-9]{1,4}[.)])[ \t]")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def without_recalled(text: str) -> str:
    """`text` without the blocks and bullets that recall put into it. Linear in `text`."""
    remaining: list[str] = []
    level = 0  # of the block's heading; 0: in none
    going_on = fenced = False  # a recalled bullet may go on in this line; the line is in a fence
    for line in text.split("\n"):
        fenced ^= _FENCE.match(line) is not None
        heading = None if fenced else _HEADING.match(line)
        if heading is not None:
            level, going_on = _level(level, heading), True
        if level and heading is None and line.strip():
            going_on = going_on or line[:1] in (" ", "\t") or _LIST.match(line) is not None
            level = level if going_on else 0
        elif not level and _BULLET.match(line):
            going_on = True
            continue
        elif not level and going_on and line[:1] in (" ", "\t") and line.strip():
            continue
        elif not level or not line.strip():
            going_on = False
        if not level:
            remaining.append(line)
    return "\n".join(remaining)


def _level(level: int, heading: re.Match[str]) -> int:
    """Level of the block after this heading, which opens, continues or ends (0) it."""
    depth = len(heading[1])
    if heading[2].strip().casefold() == HEADING.casefold():
        return depth
    return level if level and depth > level else 0


def paragraphs(text: str) -> list[str]:
    """The parts of `text` between empty lines; a fenced block and the text around it are one part."""
    out: list[list[str]] = [[]]
    fenced = False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        if line.strip() or fenced:
            out[-1].append(line)
        elif out[-1]:
            out.append([])
    return ["\n".join(part) for part in out if any(line.strip() for line in part)]
