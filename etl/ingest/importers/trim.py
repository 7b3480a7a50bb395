"""Shortens a tool's output to its head, its tail, and the lines that show errors."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD_LINES = 12
TAIL_LINES = 24
ERROR_LINES = 24
SHORT_LINES = 60  # outputs up to so many lines and characters stay whole
SHORT_CHARS = 6_000
LINE_CHARS = 400
MAX_SCAN = 4 * 2**20  # characters of one output that are looked at

_ANSI = re.compile(
    r"\x1b(?:\[[0-9;?]{0,20}[ -/]?[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HALF = re.compile(r"[\ud800-\udfff]")
_WRONG = re.compile(
    r"\b(?:error|errors|exception|fail(?:ed|ure|ures|s)?|fatal|panic(?:ked)?|traceback|assert\w*|"
    r"undefined|cannot|denied|not found|no such|segmentation|timed? ?out|abort(?:ed)?)\b|Error\b|^E {2,}|✕|✗|❌",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """`cut`: lines left out; `text` says so where they were."""

    text: str
    cut: int = 0


def plain(text: str) -> str:
    """`text` as a store takes it: no control characters, no colours, no half surrogate pairs."""
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def last_of_rewritten(text: str) -> str:
    """Progress bars write a line again and again: the last form of each line."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def trim(text: str, lines: int = SHORT_LINES, chars: int = SHORT_CHARS) -> Trimmed:
    """`text` whole when it is short; else head, tail and the error lines between them."""
    beyond = 0
    if len(text) > MAX_SCAN:
        half = MAX_SCAN // 2
        beyond = text.count("\n", half, len(text) - half)
        text = text[:half] + "\n" + text[-half:]
    text = plain(last_of_rewritten(text)).strip("\n")
    rows = [_short(row.rstrip()) for row in text.split("\n")]
    if not beyond and len(rows) <= lines and sum(map(len, rows)) <= chars:
        return Trimmed("\n".join(rows))
    keep = _selected(rows, lines)
    return _join(rows, keep, beyond, chars)


def _short(row: str) -> str:
    if len(row) <= LINE_CHARS:
        return row
    return f"{row[: LINE_CHARS - 100]} […{len(row) - LINE_CHARS} characters…] {row[-100:]}"


def _selected(rows: list[str], lines: int) -> list[int]:
    share = lines / SHORT_LINES
    head, tail = max(2, int(HEAD_LINES * share)), max(4, int(TAIL_LINES * share))
    ends = {*range(min(head, len(rows))), *range(max(0, len(rows) - tail), len(rows))}
    wrong = [i for i, row in enumerate(rows) if i not in ends and _WRONG.search(row)]
    # The first errors show the cause; the last ones are near the tail.
    return sorted(ends | set(wrong[: max(4, int(ERROR_LINES * share))]))


def _join(rows: list[str], keep: list[int], beyond: int, chars: int) -> Trimmed:
    """The rows of `keep` within `chars` (the last ones first, they show the end), gaps counted."""
    room, chosen = chars, set()
    for i in [*keep[: len(keep) // 4], *reversed(keep[len(keep) // 4 :])]:
        if room - len(rows[i]) < 0:
            continue
        room -= len(rows[i]) + 1
        chosen.add(i)
    out: list[str] = []
    gap = cut = 0
    for i in range(len(rows) + 1):
        if i < len(rows) and i not in chosen:
            gap += 1
            continue
        if gap:
            out.append(f"[… {gap + beyond:,} lines cut …]")
            cut, gap, beyond = cut + gap + beyond, 0, 0
        if i < len(rows):
            out.append(rows[i])
    return Trimmed("\n".join(out), cut)


def cut_bytes(text: str, limit: int) -> str:
    """`text` in at most `limit` bytes of UTF-8, its end cut off visibly."""
    body = text.encode("utf-8", "replace")
    if len(body) <= limit:
        return text
    note = f"\n[… {len(body) - limit:,} bytes cut …]"
    return body[: max(0, limit - len(note.encode()))].decode("utf-8", "ignore") + note
