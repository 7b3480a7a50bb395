"""Edits as agents' tools make them (replace this text by that) as unified diffs.

Where the tool's result has the hunks, they are taken; else they are made from the old and the new text,
with line numbers as if the text stood at the top of the file: readers find hunks by their lines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

CONTEXT = 3
MAX_LINES = 20_000  # of one side of an edit; a larger one is shown as a whole replacement
MAX_MATCHED = 3_000  # lines that difflib compares: it is quadratic at worst
_CONTROL = re.compile(r"[\n\r]")


def header(path: str, *, created: bool = False) -> list[str]:
    quoted = f'"{path}"' if any(c in path for c in '"\\\t') else path
    old = "/dev/null" if created else f"a/{path}"
    lines = [f"diff --git a/{path} b/{path}"] if quoted == path else []
    if created and lines:
        lines.append("new file mode 100644")
    return [*lines, f"--- {old}", f"+++ b/{path}"]


def replaced(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    """The diff of replacing each old text by its new one; "" when nothing changes."""
    hunks = [line for old, new in pairs if old != new for line in _hunks(old, new)]
    if not hunks:
        return ""
    created = len(pairs) == 1 and not pairs[0][0]
    return "\n".join([*header(path, created=created), *hunks])


def written(path: str, before: str | None, content: str) -> str:
    """The diff of writing a whole file; `before` is None where what stood there is not known."""
    if before:
        return replaced(path, [(before, content)])
    lines = _lines(content)
    if not lines:
        return ""
    body = [f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines)]
    return "\n".join([*header(path, created=True), *body])


def patched(path: str, patch: object, *, created: bool = False) -> str:
    """The diff of a `structuredPatch`: hunks with `oldStart`, `oldLines`, `newStart`, `newLines` and
    `lines`. "" when it is none."""
    if not isinstance(patch, list):
        return ""
    out: list[str] = []
    for hunk in patch[:2_000]:
        out += _structured(hunk)
    return "\n".join([*header(path, created=created), *out]) if out else ""


def _structured(hunk: object) -> list[str]:
    if not isinstance(hunk, Mapping) or not isinstance(hunk.get("lines"), list):
        return []
    lines = [_CONTROL.sub(" ", x) for x in hunk["lines"] if isinstance(x, str) and x[:1] in "+- \\"]
    lines = [x or " " for x in lines if not x.startswith("\\")]
    old = sum(x[0] != "+" for x in lines)
    new = sum(x[0] != "-" for x in lines)
    starts = [_number(hunk.get(key)) for key in ("oldStart", "newStart")]
    return [f"@@ -{starts[0]},{old} +{starts[1]},{new} @@", *lines] if lines else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**9 else 1


def _hunks(old: str, new: str) -> list[str]:
    before, after = _lines(old), _lines(new)
    if len(before) + len(after) <= MAX_MATCHED:
        lines = list(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]
        return lines
    before, after = before[:MAX_LINES], after[:MAX_LINES]
    sides = f"-{min(1, len(before))},{len(before)} +{min(1, len(after))},{len(after)}"
    return [f"@@ {sides} @@", *(f"-{x}" for x in before), *(f"+{x}" for x in after)]


def _lines(text: str) -> list[str]:
    """Lines by LF alone, as diffs count them; a last line end makes no line more."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines
