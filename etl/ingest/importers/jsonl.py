"""JSON objects a line, of any size and shape, read with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from plait.domain.errors import TranscriptInvalid

MAX_LINE_BYTES = 7 * 2**20  # an episode's evidence holds the line beside 8 MiB of others
# Objects and lists of one line. Each costs Python about a hundred bytes: `[[],[],[],…` is a bomb.
MAX_VALUES = 200_000
MAX_COMMAS = 1_000_000
_PIECE = 2**20


@dataclass(frozen=True, slots=True)
class Line:
    """`value` is the object; None with `error` for a faulty line. `whole`: it has its line end."""

    number: int
    raw: bytes
    value: dict[str, Any] | None
    error: TranscriptInvalid | None = None
    whole: bool = True


def lines(stream: BinaryIO, name: str) -> Iterator[Line]:
    """Every line that is not blank. A faulty one is yielded as such; memory stays within its limit."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        whole = raw.endswith(b"\n")
        if len(raw) > MAX_LINE_BYTES and not whole:
            size = len(raw) + _skip(stream)
            problem = f"has {size:,} bytes, more than {MAX_LINE_BYTES:,}; it is left out"
            yield Line(number, b"", None, _bad(name, number, problem))
        elif raw.strip():
            yield _parsed(raw.removeprefix(b"\xef\xbb\xbf"), name, number, whole)


def _skip(stream: BinaryIO) -> int:
    """Read on to the line's end; how many bytes that were."""
    size = 0
    while piece := stream.readline(_PIECE):
        size += len(piece)
        if piece.endswith(b"\n"):
            break
    return size


def _parsed(raw: bytes, name: str, number: int, whole: bool) -> Line:
    if raw.count(b"{") + raw.count(b"[") > MAX_VALUES or raw.count(b",") > MAX_COMMAS:
        error = _bad(name, number, "holds too many values; it is left out")
        return Line(number, b"", None, error, whole)
    try:
        value = json.loads(raw.decode())
    except UnicodeDecodeError as exc:
        error = _bad(name, number, f"is not UTF-8 at byte {exc.start}; write the file again")
    except RecursionError:
        error = _bad(name, number, "is nested too deeply; it is left out")
    except ValueError as exc:
        error = _bad(name, number, f"is not JSON ({str(exc)[:80]}); mend or remove the line")
    else:
        if isinstance(value, dict):
            return Line(number, raw, value, None, whole)
        error = _bad(name, number, "is no JSON object; mend or remove the line")
    return Line(number, b"", None, error, whole)


def _bad(name: str, number: int, problem: str) -> TranscriptInvalid:
    return TranscriptInvalid(f"{name}:{number}: the line {problem}", file=name, line=number)


def text(value: object, *path: str) -> str:
    """The string at `path`; "" where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def items(value: object, *path: str) -> list[Any]:
    """The list at `path`; empty where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def message_text(content: object) -> str:
    """The text of a message's content: a string, or blocks with `text`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(
        t for t in (b if isinstance(b, str) else text(b, "text") for b in content) if t
    )
