"""The text of one item for callers that format it: without invisible characters, quoted if it is external."""

from __future__ import annotations

from plait.domain.recall import Trust
from plait.retrieval.packing import wording
from plait.retrieval.packing.piece import Body, Piece, name, place


def text(piece: Piece, body: Body) -> str:
    """The text of one tier; ends with a line end."""
    shown = body.block or body.line
    if not shown:
        shown = f"{place(piece, body.joined.spans)} {wording.one_line(name(piece.item), 160)}"
    if piece.trust is Trust.EXTERNAL:
        return wording.quoted(shown)
    return f"{wording.visible(shown).rstrip()}\n"
