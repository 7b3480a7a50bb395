"""The repo map: files, the most relevant first, and under each the signatures that matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait.retrieval.packing import wording
from plait.retrieval.packing.outline import outline
from plait.retrieval.packing.piece import Piece, name, place

HEADING = "## Repository Map\n\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One signature. `at`: its line in the file."""

    piece: int  # index of the piece
    at: int
    text: str  # ends with a line end


def file_line(piece: Piece) -> str:
    return f"{wording.one_line(place(piece, ()), 2 * wording.MAX_NAME)}:\n"


def lines(pieces: Sequence[Piece]) -> list[Line]:
    """A line for each piece of code, in their order."""
    found = []
    for index, piece in enumerate(pieces):
        said = outline(piece.item)
        shown = said.signature or wording.one_line(name(piece.item), wording.MAX_NAME)
        depth = min(4, name(piece.item).count("."))
        found.append(Line(index, said.line, f"{'  ' * (1 + depth)}{said.line}: {shown}\n"))
    return found


def render(pieces: Sequence[Piece], chosen: Sequence[Line]) -> str:
    """The map of `chosen`, which come best first: files by their best, lines by their number."""
    by_file: dict[str, list[Line]] = {}
    for line in chosen:
        by_file.setdefault(file_line(pieces[line.piece]), []).append(line)
    return HEADING + "".join(
        head + "".join(line.text for line in sorted(under, key=lambda line: (line.at, line.piece)))
        for head, under in by_file.items()
    )
