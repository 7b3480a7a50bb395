"""Where things are in a JSON text with comments and trailing commas.

Comments and trailing commas are overwritten with spaces, which leaves every offset where it was; then
the standard library's decoder does the parsing and says where each value ends. So the syntax is exactly
the standard one, positions in messages are the file's own, and 10 MB take about a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from server.install.refusal import Refused, line_of

# An unterminated string or comment runs to the end of the text, so that each is read once.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\Z)|//[^\r\n]*+|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{][ \t\r\n]*+,|,(?=[ \t\r\n]*+[\]}])', re.DOTALL)
_MAYBE_TRAILING = re.compile(r",[ \t\r\n]*+[\]}]")
# Numbers stay text: they are not ours, and a long one costs nothing so.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
_SPACE = re.compile(r"[ \t\r\n]*+")
_BREAKS = re.compile(r"[^\r\n]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One member of an object, or one element of an array (`key` empty): `start` is the key's or the
    value's first character, `end` is one past the value."""

    key: str
    start: int
    value_start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Container:
    """An object or array: its opening and closing bracket's offsets, and what is in it."""

    open: int
    close: int
    is_object: bool
    entries: tuple[Entry, ...]

    def named(self, key: str) -> Entry | None:
        return next((e for e in self.entries if e.key == key), None)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed text. `plain` is the text with comments as spaces, `strict` also without trailing commas;
    `comments` maps where a comment ends to where it starts."""

    text: str
    plain: str
    strict: str
    comments: Mapping[int, int]
    root: Container


@lru_cache(maxsize=2)  # the parts of one file are edited one after another
def parse(text: str) -> Document:
    """The document of `text`, whose top level is an object. Raises: Refused, with the line at fault."""
    comments: dict[int, int] = {}
    plain = text
    if "//" in text or "/*" in text:
        plain = _TOKEN.sub(lambda token: _blank(token, comments), text)
    if plain.startswith("\ufeff"):
        plain = " " + plain[1:]
    for end, start in comments.items():
        if text.startswith("/*", start) and (end - start < 4 or not text.startswith("*/", end - 2)):
            raise Refused("a comment is not closed", line_of(text, start))
    strict = plain
    if _MAYBE_TRAILING.search(plain):
        strict = _TRAILING.sub(lambda found: " " if found[0] == "," else found[0], plain)
    start = _skip(strict, 0)
    value, end = _decode(text, strict, start)
    if strict[end:].strip(" \t\r\n"):
        raise Refused("there is more text after the end of the value", line_of(text, end))
    if not isinstance(value, dict):
        raise Refused("the top level must be an object, written { … }", line_of(text, start))
    return Document(text, plain, strict, comments, _walk(text, strict, start))


def is_blank(text: str) -> bool:
    """Whether a file has nothing in it."""
    return not text.strip(" \t\r\n\ufeff")


def container(document: Document, start: int) -> Container:
    """What the bracket at `start` opens."""
    return _walk(document.text, document.strict, start)


def inner(document: Document, outer: Container, key: str) -> Entry | None:
    """The member `key` of `outer`. Raises: Refused, when it is there twice."""
    found = [entry for entry in outer.entries if entry.key == key]
    if len(found) > 1:
        raise Refused(
            f'the key "{key}" is written twice; keep one', line_of(document.text, found[1].start)
        )
    return found[0] if found else None


def _blank(token: re.Match[str], comments: dict[int, int]) -> str:
    if token[0].startswith('"'):
        return token[0]
    comments[token.end()] = token.start()
    return _BREAKS.sub(" ", token[0])


def _walk(text: str, strict: str, start: int) -> Container:
    """The container at `start` of a text that was decoded as a whole."""
    closing = "}" if strict[start] == "{" else "]"
    entries: list[Entry] = []
    at = _skip(strict, start + 1)
    while strict[at] != closing:
        if strict[at] == ",":
            at = _skip(strict, at + 1)
        key, first = "", at
        if closing == "}":
            key, at = _decode(text, strict, at)
            at = _skip(strict, _skip(strict, at) + 1)  # past the colon
        value, end = _decode(text, strict, at)
        entries.append(Entry(key, first, at, end, value))
        at = _skip(strict, end)
    return Container(start, at, closing == "}", tuple(entries))


def _skip(strict: str, at: int) -> int:
    found = _SPACE.match(strict, at)
    return found.end() if found else at


def _decode(text: str, strict: str, at: int) -> tuple[Any, int]:
    """The value that begins at `at`, and its end."""
    try:
        return _DECODER.raw_decode(strict, at)
    except json.JSONDecodeError as exc:
        line = line_of(text, min(exc.pos, len(text)))
        raise Refused(f"this is not valid JSON: {exc.msg}", line) from None
    except RecursionError:
        raise Refused("the values are nested too deeply to be read") from None
