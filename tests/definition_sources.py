"""The cases of `tests/data/definitions/`: sources, and the symbols that must be found in them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "data" / "definitions"
Symbol = tuple[str, str, int, int]


class Source(NamedTuple):
    """`symbols`: qualified name, kind (" test" behind that of a test), first and last line."""

    language: str
    title: str
    path: str
    text: str
    symbols: list[Symbol]


def read(file: Path) -> list[Source]:
    """The cases of one file: `=== path: title`, the source, `--- symbols`, and a symbol a line."""
    sources = []
    for case in file.read_text().split("\n=== ")[1:]:
        head, _, rest = case.partition("\n")
        text, _, listed = rest.partition("\n--- symbols\n")
        path, _, title = head.partition(": ")
        rows = (line.rsplit(" | ", 3) for line in listed.strip().splitlines())
        symbols = [(name, kind, int(first), int(last)) for name, kind, first, last in rows]
        sources.append(Source(file.stem, title, path, text, symbols))
    return sources


SOURCES = [source for file in sorted(FOLDER.glob("*.txt")) for source in read(file)]
