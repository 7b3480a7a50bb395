"""What hooks send, and the lines that they push into a session, each about one thing that has a key. No I/O, and light to load."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

MAX_TEXT = 240  # characters of one line
TITLE = "From Plait's index:"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """`path`: absolute; `hunks`: as in a unified diff, from the first `@@` on."""

    path: str
    hunks: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A line under a heading. `key`: of what it is about, the same in every hook."""

    key: str
    heading: str
    text: str


def key_of(repo: str, path: str, symbol: str = "") -> str:
    """16 hexadecimal digits that name a symbol or, without one, a file."""
    name = "\0".join((repo, path, symbol.partition("#")[0]))
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()


def clean(text: str) -> str:
    """`text` as one line of at most `MAX_TEXT` characters: names and paths are a repository's own, and none
    of them may end a line or hide what follows."""
    line = "".join(c if c.isprintable() else "\ufffd" for c in text[: MAX_TEXT + 1])
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def composed(remarks: Iterable[Remark]) -> str:
    """The text: a title, every heading once, its lines below it. "" without lines."""
    lines: list[str] = []
    heading = ""
    for remark in remarks:
        if remark.heading != heading:
            heading = remark.heading
            lines.append(heading)
        lines.append(f"- {remark.text}")
    return "\n".join([TITLE, *lines]) if lines else ""
