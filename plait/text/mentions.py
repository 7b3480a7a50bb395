"""What a text names as code does: candidates for links, to be looked up in the repository's index."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    backquotes. A plain word does not count: it would match any symbol of that name. A path may have a line
    (`a.py:12`, `a.py#L3`) or a name (`a.py::test_x`) behind it. Linear in `text`."""
    found = _Found()
    for word in dict.fromkeys(_candidates(" ".join(text[:MAX_READ].split()))):
        for piece in _PIECE.finditer(word):
            marked = word[piece.end() : piece.end() + 1] in ("(", "`")
            found.add(piece[0].rstrip(".:!?").removeprefix("./"), marked)
        if len(found.paths) >= MAX_NAMES and len(found.names) >= MAX_NAMES:
            break
    return Mentions(
        tuple(found.paths)[:MAX_NAMES],
        tuple(found.names)[:MAX_NAMES],
        tuple(found.lines)[:MAX_NAMES],
    )


@dataclass(slots=True)
class _Found:
    """Mentions so far; dicts, as sets in order of appearance."""

    paths: dict[str, None] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    lines: dict[tuple[str, int], None] = field(default_factory=dict)

    def add(self, bare: str, marked: bool) -> None:
        """`marked`: a bracket or a backquote follows, so a plain word is a name too."""
        if (":" in bare or "#" in bare) and (at := _AT.match(bare)):
            if _PATH.fullmatch(at[1]):
                self.paths[at[1]] = None
                if at[2] or at[3]:
                    self.lines[at[1], int(at[2] or at[3])] = None
            bare, marked = at[4] or "", True
        if _PATH.fullmatch(bare):
            self.paths[bare] = None
        if _NAME.fullmatch(bare) and (marked or _is_code(bare)):
            name = _OWN.sub("", re.sub(r"::|#", ".", bare))
            if len(name) > 2:
                self.names[name] = None


def _candidates(text: str) -> Iterator[str]:
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
