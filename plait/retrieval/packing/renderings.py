"""The ways to show a piece, from its whole source to its name, each formatted and with its tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plait.domain.recall import Tier
from plait.retrieval.packing import markdown, structured
from plait.retrieval.packing.piece import Body, Piece, bodies, place

# Texts with more characters a usable token than this are not counted: 1 MB of blanks is not worth the time.
MAX_CHARS_A_TOKEN = 16
# Agents' text cannot be opened by location as code can: so short a text is shown whole instead of named.
SHORT_TOKENS = 100


@dataclass(frozen=True, slots=True)
class Way:
    """`names`: this is the shortest way, which only names the piece. `file`: the file whose bullet it is listed under,
    or ""."""

    body: Body
    text: str
    tokens: int
    names: bool = False
    file: str = ""


def ways(piece: Piece, usable: int, count: Callable[[str], int], *, bare: bool) -> list[Way]:
    """All ways, longest first; which of them names the piece does not depend on the budget. `usable`: tokens; `bare`:
    without bullets."""
    counted: dict[str, int] = {"": 0}  # most tiers share their first line
    file = place(piece, ()) if piece.is_code and not bare else ""

    def counts(part: str) -> int:
        if part not in counted:
            counted[part] = count(part)
        return counted[part]

    found: list[Way] = []
    named = False
    all_ = bodies(piece, MAX_CHARS_A_TOKEN * max(usable, SHORT_TOKENS))
    for body in all_:
        under = file if body.tier is not Tier.FULL else ""
        if under:
            parts = markdown.under(piece, body)
        else:
            parts = ("", structured.text(piece, body)) if bare else markdown.parts(piece, body)
        tokens = sum(map(counts, parts))
        short = not piece.is_code and tokens <= SHORT_TOKENS and _brief(body)
        names = not named and (short or body is all_[-1])
        named = named or names
        found.append(Way(body, "".join(parts), tokens, names, under))
    return found


def _brief(body: Body) -> bool:
    return len(body.block) + len(body.line) <= MAX_CHARS_A_TOKEN * SHORT_TOKENS
