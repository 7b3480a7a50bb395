"""The repo map: files, the most relevant first, and under each the signatures that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.retrieval.packing import wording
from plait.retrieval.packing.piece import Piece, name, outlined, place

HEADING = "## Repository Map\n\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One signature. `at`: its line in the file."""

    piece: int  # index of the piece
    at: int
    text: str  # ends with a line end


def file_line(piece: Piece) -> str:
    return f"{wording.spot(place(piece, ()), 2 * wording.MAX_NAME)}:\n"


def lines(pieces: Sequence[Piece]) -> list[Line]:
    """A line for each symbol of `pieces`, in their order; module-level code counts by its first line."""
    found = []
    seen: set[tuple[str, str, str]] = set()
    for index, piece in enumerate(pieces):
        item = piece.item
        key = (item.repo, item.path, item.symbol or str(item.start_line))
        if key in seen:
            continue
        seen.add(key)
        found_outline = outlined(piece)
        symbol = name(item)
        depth = min(4, symbol.count("."))
        text = found_outline.signature or wording.one_line(symbol, wording.MAX_NAME) or item.kind
        text = f"part of {text}" if found_outline.part else text
        found.append(
            Line(index, found_outline.line, f"{'  ' * (1 + depth)}{found_outline.line}: {text}\n")
        )
    return found


def render(pieces: Sequence[Piece], chosen: Sequence[Line]) -> str:
    """The map of `chosen`, which come best first: files in that order, the lines of a file by number."""
    by_file: dict[str, list[Line]] = {}
    for line in chosen:
        by_file.setdefault(file_line(pieces[line.piece]), []).append(line)
    return HEADING + "".join(
        head + "".join(line.text for line in sorted(under, key=lambda line: (line.at, line.piece)))
        for head, under in by_file.items()
    )
