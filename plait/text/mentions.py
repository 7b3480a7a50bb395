"""What a text names as code does: candidates for links, to be looked up in the repository's index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MAX_NAMES = 20  # of each kind, a text
MAX_READ = 50_000  # characters; the subject of a memory comes early
MAX_LENGTH = 200

_PATH = re.compile(
    r"(?:[\w@.+-]+/)*[\w@+-][\w@.+-]*\.[A-Za-z][A-Za-z0-9]{0,9}|(?:[\w@.+-]+/)+[\w@.+-]+"
)
_NAME = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|#)[A-Za-z_]\w*)*")
# A path with its line, as tools print it: `src/app.py:12`, `src/app.py#L3-L9`; or with a name in that file.
_AT = re.compile(
    r"\A([^:#]*\.[A-Za-z][A-Za-z0-9]{0,9})"
    r"(?::(\d{1,7})[\d:,-]*|#L(\d{1,7})(?:-L?\d+)?|::(\w+(?:::\w+)*))\Z",
    re.ASCII,
)
_OWN = re.compile(r"\A(?:self|this|cls)\.")
# What every path and every name that is spelled as code has: one of these, the capital inside a word. One
# set of characters first, which is what the engine looks for fastest.
_SIGN = re.compile(r"[_/`(.:#A-Z](?:(?<=[_/`(])|(?<=[.:#])(?=[^\W\d])|(?<=[a-z][A-Z]))")
_PIECE = re.compile(r"[^,;()\[\]{}<>\"'|`=]+")


@dataclass(frozen=True, slots=True)
class Mentions:
    """Paths relative to some folder, and names as `name` or `Class.method`, in order of appearance.
    `lines`: of those paths, the ones with a line behind them."""

    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()


def mentions(text: str) -> Mentions:
    """Words of `text` that look like a path or like code: dotted, snake_case, camelCase, called, or in
    backquotes. A plain word is none: it would be bound to whatever has its name. A path may have a line
    (`a.py:12`, `a.py#L3`) or a name (`a.py::test_x`) behind it. Linear in `text`."""
    paths: dict[str, None] = {}
    names: dict[str, None] = {}
    lines: dict[tuple[str, int], None] = {}
    for word in dict.fromkeys(_telling(" ".join(text[:MAX_READ].split()))):
        for piece in _PIECE.finditer(word):
            bare = piece[0].rstrip(".:!?").removeprefix("./")
            behind = word[piece.end() : piece.end() + 1]
            marked = behind in ("(", "`") and behind != ""
            if (":" in bare or "#" in bare) and (at := _AT.match(bare)):
                if _PATH.fullmatch(at[1]):
                    paths[at[1]] = None
                    if at[2] or at[3]:
                        lines[at[1], int(at[2] or at[3])] = None
                bare, marked = at[4] or "", True
            if _PATH.fullmatch(bare):
                paths[bare] = None
            if _NAME.fullmatch(bare) and (marked or _is_code(bare)):
                name = _OWN.sub("", re.sub(r"::|#", ".", bare))
                if len(name) > 2:
                    names[name] = None
        if len(paths) >= MAX_NAMES and len(names) >= MAX_NAMES:
            break
    return Mentions(tuple(paths)[:MAX_NAMES], tuple(names)[:MAX_NAMES], tuple(lines)[:MAX_NAMES])


def _telling(text: str) -> Iterator[str]:
    """The words of `text`, which are apart by one blank each, that may hold a path or a name."""
    end = 0
    for sign in _SIGN.finditer(text):
        at = sign.start()
        if at < end:
            continue
        begin = text.rfind(" ", end, at) + 1 or end
        end = text.find(" ", at)
        end = len(text) if end < 0 else end
        if end - begin <= MAX_LENGTH:
            yield text[begin:end]


def _is_code(word: str) -> bool:
    inner = word.strip("_")
    if "." in inner or "_" in inner or ":" in inner or "#" in inner:
        return True
    return not (inner.islower() or inner.isupper() or inner[1:].islower()) and any(
        a.islower() and b.isupper() for a, b in pairwise(inner)
    )


def unique(name: str, symbols: set[str]) -> str | None:
    """The one of `symbols` that `name` is, or ends as; None where there is none or more than one."""
    if name in symbols:
        return name
    found = [symbol for symbol in symbols if symbol.endswith(f".{name}")]
    return found[0] if len(found) == 1 else None
