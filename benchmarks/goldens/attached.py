"""Diffs and stack traces made of a tree's own lines, the same ones each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

# By suffix what begins a function with a body, and a frame of a stack trace as that language prints it.
_DEFINES = {
    ".py": re.compile(r"\s+def (\w+)"),
    ".js": re.compile(r"(?:async )?function (\w+)"),
    ".ts": re.compile(r"(?:export )?function (\w+)"),
    ".java": re.compile(r"  public (?:static )?[\w<>\[\]]+ (\w+)\([^;]*$"),
    ".go": re.compile(r"func (?:\([^)]*\) )?(\w+)"),
}
_FRAMES = {
    ".py": '  File "/app/{path}", line {line}, in {name}',
    ".js": "    at {name} (/app/{path}:{line}:9)",
    ".ts": "    at {name} (/app/{path}:{line}:9)",
    ".java": "\tat {package}.{stem}.{name}({stem}.java:{line})",
    ".go": "main.{name}(0xc000)\n\t/app/{path}:{line} +0x1d",
}
_ERRORS = {
    ".py": "Traceback (most recent call last):\n{frames}\nValueError: unexpected value",
    ".js": "TypeError: unexpected value\n{frames}",
    ".ts": "TypeError: unexpected value\n{frames}",
    ".java": "java.lang.IllegalStateException: unexpected value\n{frames}",
    ".go": "panic: unexpected value\n\ngoroutine 1 [running]:\n{frames}",
}
EACH = 4  # files a tree
Place = tuple[str, str, int]  # path, function, line


def diffs(root: Path) -> list[str]:
    """One a file: the line after a function's first one changes."""
    return [_diff(root, place) for place in _places(root)]


def traces(root: Path) -> list[str]:
    """All places as frames of one trace, and each but the first as one of its own."""
    places = _places(root)
    return [_trace(places), *(_trace([place]) for place in places[1:])] if places else []


def _places(root: Path) -> list[Place]:
    """A function in the middle of each of `EACH` files, spread over those that have functions."""
    found = []
    for path in sorted(p for p in root.rglob("*") if p.suffix in _DEFINES and p.is_file()):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        define = _DEFINES[path.suffix]
        named = [
            (str(path.relative_to(root)), match[1], number)
            for number, line in enumerate(lines, start=1)
            if (match := define.match(line)) and number < len(lines)
        ]
        if named:
            found.append(named[len(named) // 2])
    return [found[n * len(found) // EACH] for n in range(EACH)] if len(found) >= EACH else found


def _diff(root: Path, place: Place) -> str:
    path, _, line = place
    before = (root / path).read_text(encoding="utf-8", errors="replace").splitlines()
    after = [*before[:line], before[line] + "  // changed", *before[line + 1 :]]
    return "\n".join(unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="")) + "\n"


def _trace(places: Sequence[Place]) -> str:
    suffix = Path(places[0][0]).suffix
    frames = [
        _FRAMES[suffix].format(
            path=path,
            name=name,
            line=line + 1,
            stem=Path(path).stem,
            package=".".join(Path(path).parent.parts),
        )
        for path, name, line in places
        if Path(path).suffix == suffix
    ]
    return _ERRORS[suffix].format(frames="\n".join(frames))
