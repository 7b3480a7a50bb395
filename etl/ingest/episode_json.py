"""Read episodes from JSON text: one object, or one object a line (JSON Lines)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from plait.domain.errors import EpisodeInvalid, PlaitError
from plait.domain.values import Episode
from plait.memory.episode import parse

# An episode's content is at most 16 MiB; JSON escapes at worst double ordinary text.
MAX_DOCUMENT_BYTES = 48 * 2**20


@dataclass(frozen=True, slots=True)
class Read:
    """One document: its episode or its error. `line` is where it starts, from 1.

    Neither, with a `note`: something that is not stored, but no error. A `note` with an episode
    describes an oddity.
    """

    line: int
    episode: Episode | None
    error: PlaitError | None = None
    note: str = ""


def read(stream: BinaryIO, repo: str = "") -> Iterator[Read]:
    """The episodes of `stream`, in order; `repo` is the default of documents without one.

    A first line that is an object by itself, with more to come, makes the rest JSON Lines; else all of
    it is one object. A faulty line is reported and the next one read.

    Raises: EpisodeInvalid, when there is nothing in it.
    """
    number, first = _first_line(stream)
    if not _is_object(first):
        rest = stream.read(MAX_DOCUMENT_BYTES + 1)
        yield _one(number, first + rest, repo)
        return
    yield _one(number, first, repo)
    while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
        number += 1
        if line.strip():
            yield _one(number, line, repo)
        if len(line) > MAX_DOCUMENT_BYTES:
            return  # what follows is the rest of that line, not a document


def _first_line(stream: BinaryIO) -> tuple[int, bytes]:
    number = 0
    while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
        number += 1
        if line.removeprefix(b"\xef\xbb\xbf").strip():
            return number, line.removeprefix(b"\xef\xbb\xbf")
    raise EpisodeInvalid("the input is empty; write an episode as docs/episodes.md shows")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _one(number: int, data: bytes, repo: str) -> Read:
    try:
        document = load(data)
        if repo and isinstance(document, dict):
            document.setdefault("repo", repo)
        return Read(number, parse(document))
    except EpisodeInvalid as exc:
        return Read(number, None, exc)


def load(data: bytes) -> Any:
    """`data` as JSON, strictly: no repeated keys, no NaN, bounded size and depth.

    Raises: EpisodeInvalid.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise EpisodeInvalid(
            f"the document is larger than {MAX_DOCUMENT_BYTES:,} bytes; "
            "split the episode, with the same session_key",
            limit=MAX_DOCUMENT_BYTES,
        )
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as exc:
        raise EpisodeInvalid(
            f"byte {exc.start} is not UTF-8; save the file as UTF-8", byte=exc.start
        ) from exc
    except json.JSONDecodeError as exc:
        raise EpisodeInvalid(
            f"line {exc.lineno} column {exc.colno} is not JSON: {exc.msg}; "
            "docs/episodes.md has an example",
            line=exc.lineno,
            column=exc.colno,
        ) from exc
    except RecursionError as exc:
        raise EpisodeInvalid("the document is nested too deeply; flatten its `meta`") from exc
    except ValueError as exc:  # an integer of more digits than Python converts
        raise EpisodeInvalid(f"the document holds a number that can't be read: {exc}") from exc


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        keys = [key for key, _ in pairs]
        key = next(k for k in keys if keys.count(k) > 1)
        raise EpisodeInvalid(f"the key {key[:80]!r} stands twice in one object; keep one", key=key)
    return out


def _no_constant(name: str) -> Any:
    raise EpisodeInvalid(
        f"{name} is not JSON; leave the value out when it is not known", value=name
    )
