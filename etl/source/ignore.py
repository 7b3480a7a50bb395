"""Ignore files as git reads them: `.gitignore` syntax, compiled to one regular expression a file.

Patterns are translated so that matching takes time linear in the path for each pattern: everything
between two stars is matched at its first place and never again (atomic groups), which is exact for
globs. A hostile `*a*a*a*a*b` therefore can't hold up a walk.

git matches bytes: its `?` is half an "é". So patterns and paths come here as strings of one character
a byte (`as_bytes_text`), which is the path itself when it is ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\ \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\ \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_NEVER = r"(?!)"


def as_bytes_text(path: str) -> str:
    """`path` with one character a byte."""
    if path.isascii():
        return path
    return path.encode("utf-8", "surrogateescape").decode("latin-1")


class BadPattern(ValueError):
    """A pattern that matches nothing, as git treats an unclosed bracket."""


@dataclass(frozen=True, slots=True)
class IgnoreFile:
    """One compiled ignore file, for paths relative to its own folder."""

    regex: re.Pattern[str]
    negated: tuple[bool, ...]

    def verdict(self, path: str) -> bool | None:
        """True: ignored; False: re-included by `!`; None: no pattern matches.

        `path` is relative to the file's folder; a folder's ends with "/".
        """
        match = self.regex.match(path)
        if match is None or match.lastindex is None:
            return None
        return not self.negated[match.lastindex - 1]


@lru_cache(maxsize=512)  # many folders of one repository hold the same ignore file
def compile_ignore(text: str) -> IgnoreFile | None:
    """The patterns of `text`, the last matching one winning; None when it has none."""
    rules = list(_rules(text))
    if not rules:
        return None
    rules.reverse()  # the first alternative that matches is the last pattern of the file
    source = "|".join(f"({regex})" for regex, _ in rules)
    return IgnoreFile(re.compile(source, re.DOTALL), tuple(negated for _, negated in rules))


def _rules(text: str) -> Iterator[tuple[str, bool]]:
    for line in text.removeprefix("\xef\xbb\xbf").split("\n"):
        pattern = _strip(line)
        if not pattern or pattern.startswith("#"):
            continue
        negated = pattern.startswith("!")
        if negated:
            pattern = pattern[1:]
        try:
            regex = translate(pattern)
        except BadPattern:
            continue
        if regex != _NEVER:
            yield regex, negated


def _strip(line: str) -> str:
    """Without trailing spaces (but an escaped one) and without the CR of a CRLF file."""
    if line.endswith("\r"):
        line = line[:-1]
    while line.endswith(" "):
        slashes = len(line) - 1 - len(line[:-1].rstrip("\\"))
        if slashes % 2:
            break
        line = line[:-1]
    return line


def translate(pattern: str) -> str:
    """A regular expression for whole relative paths (folders end with "/").

    Raises: BadPattern.
    """
    dirs_only = pattern.endswith("/")
    if dirs_only:
        pattern = pattern[:-1]
    anchored = "/" in pattern
    if pattern.startswith("/"):
        pattern = pattern[1:]
    if not pattern:
        return _NEVER
    segments = pattern.split("/")
    if not anchored:
        segments = ["**", *segments]
    end = "/" if dirs_only else "/?"
    return _blocks(segments) + end + r"\Z"


def _blocks(segments: list[str]) -> str:
    """`A/**/B/**/C`: A at the start, each middle block at its first place, C at the end."""
    leading: list[str] = []
    blocks: list[list[str]] = [leading]
    for i, segment in enumerate(segments):
        if segment == "**" and (i == len(segments) - 1):
            blocks.append(["*", ""])  # `a/**`: everything inside, at least one name
        elif segment == "**":
            if blocks[-1] or len(blocks) == 1:
                blocks.append([])
        else:
            blocks[-1].append(segment)
    out = "".join(_segment(s) + "/" for s in blocks[0])
    if len(blocks) == 1:
        return out[:-1]
    for block in blocks[1:-1]:
        body = "".join(_segment(s) + "/" for s in block)
        out += f"(?>(?:[^/]+/)*?{body})"
    last = blocks[-1]
    if last == ["*", ""]:
        return out + r"(?:[^/]+/)*[^/]+"
    return out + r"(?:[^/]+/)*" + "/".join(_segment(s) for s in last)


def _segment(glob: str) -> str:
    """One name: `*` and `?` don't cross "/". Inside a name `**` is `*`."""
    parts: list[str] = [""]
    i = 0
    while i < len(glob):
        char = glob[i]
        i += 1
        if char == "*":
            if parts[-1] or len(parts) == 1:
                parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            piece, i = _bracket(glob, i)
            parts[-1] += piece
        elif char == "\\":
            if i == len(glob):
                raise BadPattern(glob)
            parts[-1] += re.escape(glob[i])
            i += 1
        else:
            parts[-1] += re.escape(char)
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    if not first:
        first = "(?=[^/])"  # a star may match nothing, a name is never empty
    return first + "".join(f"(?>[^/]*?{part})" for part in middle) + "[^/]*" + last


def _bracket(glob: str, i: int) -> tuple[str, int]:
    """The set that opens before `i`, as a regular expression, and the index behind it."""
    negate = i < len(glob) and glob[i] in "!^"
    i += negate
    items: list[str] = []
    start = i
    while i == start or not glob.startswith("]", i):  # a first "]" is in the set
        if i >= len(glob):
            raise BadPattern(glob)
        item, i = _posix_class(glob, i) if glob.startswith("[:", i) else _range(glob, i)
        items += item
    if not items:
        return (r"[^/]" if negate else _NEVER), i + 1
    body = "".join(items)
    # A set never matches "/", whatever it lists.
    return (f"[^/{body}]" if negate else f"(?!/)[{body}]"), i + 1


def _posix_class(glob: str, i: int) -> tuple[list[str], int]:
    """`[:alpha:]` and the like; a "[" that no ":]" follows is an item like any other."""
    close = glob.find(":]", i + 2)
    if close < 0:
        return _range(glob, i)
    name = glob[i + 2 : close]
    if name not in _POSIX_CLASSES:
        raise BadPattern(glob)
    return [_POSIX_CLASSES[name]], close + 2


def _range(glob: str, i: int) -> tuple[list[str], int]:
    """One character or `a-z`, which is nothing when its ends stand the wrong way round."""
    low, i = _literal(glob, i)
    if not glob.startswith("-", i) or i + 1 >= len(glob) or glob[i + 1] == "]":
        return [re.escape(low)], i
    high, i = _literal(glob, i + 1)
    return [f"{re.escape(low)}-{re.escape(high)}"] if low <= high else [], i


def _literal(glob: str, i: int) -> tuple[str, int]:
    if glob[i] == "\\":
        if i + 1 >= len(glob):
            raise BadPattern(glob)
        return glob[i + 1], i + 2
    return glob[i], i + 1
