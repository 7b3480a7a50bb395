"""One item to be packed, with its metadata, and the text that each tier shows of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from plait.domain.recall import Freshness, NamedAnchor, Tier, Trust
from plait.domain.values import Collection, Item
from plait.retrieval.packing import wording
from plait.retrieval.packing.neighbours import Joined, alone
from plait.retrieval.packing.outline import Outline, outline, own_name

MAX_TITLE = 120
# The number of a second or later definition of one name.
_PART = re.compile(r"#\d+$")
_HUNK = re.compile(r"^(?:diff --git .*|\+\+\+ .*|@@ .*)$", re.MULTILINE)
MAX_HUNKS = 8


@dataclass(frozen=True, slots=True)
class Piece:
    """`repo`: shown before the path; "" when all items are of one repository."""

    item: Item
    score: float
    reasons: tuple[str, ...] = ()
    trust: Trust = Trust.AGENT_CLAIMED
    freshness: Freshness = Freshness.UNVERIFIABLE
    repo: str = ""
    joined: Joined | None = None
    arms: dict[str, float] = field(default_factory=dict)
    anchors: tuple[NamedAnchor, ...] = ()

    @property
    def is_code(self) -> bool:
        return self.item.collection is Collection.FILES


@dataclass(frozen=True, slots=True)
class Body:
    """What one tier shows of an item, before formatting.

    `block`: text of several lines; `line`: one line next to the item's name."""

    tier: Tier
    joined: Joined
    line: str = ""
    block: str = ""


def bodies(piece: Piece, most: int) -> list[Body]:
    """The bodies of all tiers, longest first; none is truncated, and those over `most` characters are omitted."""
    found = _code(piece) if piece.is_code else _text(piece)
    return [body for body in found if len(body.block) + len(body.line) <= most]


def _code(piece: Piece) -> list[Body]:
    item, own = piece.item, alone(piece.item)
    found = [Body(Tier.FULL, own, block=own.content)]
    if piece.joined is not None and piece.joined.ids:
        found.insert(0, Body(Tier.FULL, piece.joined, block=piece.joined.content))
    short = _prose(item) if item.kind == "doc" else _signature(piece)
    if short and len(short) < len(item.content):
        found.append(Body(Tier.OUTLINE, own, line=short))
    return [*found, Body(Tier.LINE, own)]


def outlined(piece: Piece) -> Outline:
    """The outline of code; for a later part of a symbol, that of the first part if it is joined."""
    own, joined = outline(piece.item), piece.joined
    if not own.part or joined is None or not joined.spans:
        return own
    whole = outline(replace(piece.item, content=joined.content, start_line=joined.spans[0][0]))
    return own if whole.part else whole


def _signature(piece: Piece) -> str:
    found = outlined(piece)
    if found.part:
        of = f"part of {wording.code(own_name(piece.item.symbol))}"
        return (
            f"{of} — {found.doc}" if found.doc else ""
        )  # without a doc, name and lines are enough
    signature = wording.code(found.signature, 2 * wording.MAX_NAME) if found.signature else ""
    return " — ".join(part for part in (signature, found.doc) if part)


def _prose(item: Item) -> str:
    heading, _, rest = item.content.strip().partition("\n")
    text = wording.first_sentence(wording.first_paragraph(rest.lstrip("=-~^\n ")))
    return " — ".join(p for p in (wording.one_line(heading.strip("#= "), MAX_TITLE), text) if p)


def _text(piece: Piece) -> list[Body]:
    text = piece.item.content.strip()
    own = alone(piece.item)
    found = [Body(Tier.FULL, own, block=text)]
    first = (
        hunks(text) if piece.item.collection is Collection.DIFFS else wording.first_paragraph(text)
    )
    if first and len(first) < len(text):
        found.append(Body(Tier.OUTLINE, own, block=first))
    title = wording.first_sentence(text, MAX_TITLE)
    if len(title) < len(found[-1].block):
        found.append(Body(Tier.LINE, own, line=title))
    return found


def hunks(diff: str) -> str:
    """The files of a diff and the headings of its hunks."""
    heads = [wording.one_line(head, 160) for head in _HUNK.findall(diff[:200_000])]
    shown = [head for head in heads if not head.startswith("+++")] or heads
    more = len(shown) - MAX_HUNKS
    return "\n".join([*shown[:MAX_HUNKS], *([f"… {more} more hunks"] if more > 0 else [])])


def name(item: Item) -> str:
    """The symbol without the module prefix that its path repeats: `Session.get` for `app.http.Session.get`."""
    symbol = _PART.sub("", item.symbol)
    dotted = re.sub(r"\.\w+$", "", item.path).replace("/", ".").removesuffix(".__init__")
    while dotted:
        if symbol == dotted:
            return ""
        if symbol.startswith(f"{dotted}."):
            return symbol[len(dotted) + 1 :]
        dotted = dotted.partition(".")[2]
    return symbol


def place(piece: Piece, spans: Sequence[tuple[int, int]]) -> str:
    """`path:10-32,60-75`, "" without a path."""
    item = piece.item
    if not item.path:
        return ""
    where = f"{piece.repo}:{item.path}" if piece.repo else item.path
    at = lines(spans)
    return f"{where}:{at}" if at else where


def lines(spans: Sequence[tuple[int, int]]) -> str:
    """`10-32,60-75`."""
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in spans if a > 0)
