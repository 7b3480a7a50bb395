"""Pack ranked items into a `Block`: within its budget, without repeats, with a cause for every omission.

Items named within one budget (as items, or inside one that shows them whole) are named within every larger budget;
`choose` explains why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from plait.domain.recall import (
    Block,
    Dropped,
    Omission,
    RecalledItem,
    RecallFormat,
    Tier,
)
from plait.domain.values import ItemId
from plait.retrieval.packing import markdown, repo_map
from plait.retrieval.packing.choose import (
    Choice,
    Entry,
    Room,
    Size,
    choose,
    worth,
)
from plait.retrieval.packing.dedupe import Coverage
from plait.retrieval.packing.piece import Piece
from plait.retrieval.packing.renderings import Way, ways
from plait.retrieval.ranking.coherence import APART
from plait.retrieval.ranking.weights import DEFAULT
from plait.text.token_count import Counter

STAGE = "format"
CODE, MEMORY = "code", "memory"
# Kinds of chunks outside functions.
_OUTSIDE = frozenset(["class", "module", "doc", "config", "code"])
WEIGHTS = DEFAULT.packing


@dataclass(frozen=True, slots=True)
class Limits:
    """`budget`: as requested. `shares`: of the usable tokens, by group. `prefer_source`: the source of a few items
    rather than the locations of many."""

    budget: int
    counter: Counter
    items: int
    shares: Mapping[str, float]
    prefer_source: bool = False

    @property
    def usable(self) -> int:
        return self.counter.usable(self.budget)

    def names(self, left: int) -> int:
        """How many of `left` tokens names may take; grows with `left`."""
        if self.prefer_source:
            return int(WEIGHTS.names_beside_source * left)
        return max(min(left, WEIGHTS.names_first), int(WEIGHTS.names_share * left))


def pack(
    pieces: Sequence[Piece], limits: Limits, format_: RecallFormat, preface: Sequence[str] = ()
) -> Block:
    """The context of `pieces`, which come best first with distinct ids. `preface`: lines before them, most important
    first, as many as fit."""
    if format_ is RecallFormat.REPO_MAP:
        return _map(pieces, limits)
    return _list(pieces, limits, format_, preface)


def silent(limits: Limits, why: str, omitted: tuple[Omission, ...] = ()) -> Block:
    """An empty block and the reason."""
    return Block("", (), omitted, 0, limits.budget, limits.counter.counted, why)


def _list(
    pieces: Sequence[Piece], limits: Limits, format_: RecallFormat, preface: Sequence[str]
) -> Block:
    count = limits.counter.count
    bare = format_ is RecallFormat.STRUCTURED
    head = "" if bare else markdown.HEADING
    left = limits.usable - count(head)
    lines, used, reserved = _preface([] if bare else preface, left, count)
    shown = [ways(piece, limits.usable, count, bare=bare) for piece in pieces]
    room = Room(left - used, limits.names(left - reserved), limits.items, first=left - reserved)
    choice = _chosen(pieces, shown, limits, room)
    chosen = {i: shown[i][size] for i, size in enumerate(choice.sizes) if size >= 0}
    chosen = _in_order(pieces, chosen, count)
    texts = [head, *lines, *(way.text for way in chosen.values())]
    # The tokens of the parts add up by construction; should a tokenizer disagree, drop the last part.
    while chosen and not bare and count("".join(texts)) > limits.usable:
        texts.pop()
        chosen.popitem()
    omitted = _omissions(pieces, shown, choice, set(chosen))
    if not chosen and not lines:
        return silent(limits, _too_small(limits), omitted)
    context = "" if bare else "".join(texts)
    items = tuple(_recalled(pieces, i, way, choice) for i, way in chosen.items())
    tokens = choice.spent if bare else count(context)
    return Block(context, items, omitted, tokens, limits.budget, limits.counter.counted)


def _preface(
    preface: Sequence[str], left: int, count: Callable[[str], int]
) -> tuple[list[str], int, int]:
    """The lines that fit, their tokens, and the tokens reserved for them: at least as many as they take, so that the
    remaining tokens grow with `left`."""
    texts = [f"{line.rstrip()}\n" for line in preface]
    costs = [count(text) for text in texts]
    most = int(left * WEIGHTS.impact_share)
    lines: list[str] = []
    used = 0
    for text, tokens in zip(texts, costs, strict=True):
        if used + tokens > most:
            break
        lines.append(text)
        used += tokens
    return lines, used, min(most, sum(costs))


def _in_order(
    pieces: Sequence[Piece], chosen: Mapping[int, Way], count: Callable[[str], int]
) -> dict[int, Way]:
    """Bullets in rank order; the symbols named under one file follow the best of them, which also carries the bullet
    of the file."""
    files: dict[str, list[int]] = {}
    for i, way in chosen.items():
        if way.file:
            files.setdefault(way.file, []).append(i)
    ordered: dict[int, Way] = {}
    for i, way in chosen.items():
        if i in ordered:
            continue
        first, *rest = files[way.file] if way.file else [i]
        ordered[first] = _headed(pieces[first], chosen[first], count, alone=not rest)
        ordered |= {other: chosen[other] for other in rest}
    return ordered


def _headed(piece: Piece, way: Way, count: Callable[[str], int], *, alone: bool) -> Way:
    """`way` with the bullet of its file above it; the only symbol of a file becomes a bullet itself if that is no
    longer."""
    if not way.file:
        return way
    text = markdown.head(piece)
    headed = replace(way, text=text + way.text, tokens=count(text) + way.tokens)
    if alone:
        bullet = markdown.bullet(piece, way.body)
        if (tokens := count(bullet)) <= headed.tokens:
            return replace(way, text=bullet, tokens=tokens)
    return headed


def _chosen(
    pieces: Sequence[Piece], shown: Sequence[Sequence[Way]], limits: Limits, room: Room
) -> Choice:
    """Choose what to show of each piece."""
    index = {piece.item.id: i for i, piece in enumerate(pieces)}
    worths = {piece.item.id: _worth(piece) for piece in pieces}
    entries = [
        Entry(
            worths[piece.item.id],
            CODE if piece.is_code else MEMORY,
            [_size(piece, way, worths, index) for way in found],
            next((s for s, way in enumerate(found) if way.names), -1),
            _place(piece),
        )
        for piece, found in zip(pieces, shown, strict=True)
    ]
    heads: dict[str, int] = {}
    for piece, found in zip(pieces, shown, strict=True):
        for way in found:
            if way.file and way.file not in heads:
                # Equal for all pieces of a file: every score has two digits.
                heads[way.file] = limits.counter.count(markdown.head(piece))
    coverage = Coverage([piece.item for piece in pieces])
    return choose(
        entries, room, limits.shares, heads, lambda i, size: coverage.by(i, shown[i][size].body)
    )


def _worth(piece: Piece) -> float:
    if not piece.is_code:
        return worth(piece.score)
    return worth(piece.score, len(piece.item.content), outside=piece.item.kind in _OUTSIDE)


def _size(
    piece: Piece, way: Way, worths: Mapping[ItemId, float], index: Mapping[ItemId, int]
) -> Size:
    """The size of one way; each joined candidate adds its own worth."""
    shown = (WEIGHTS.code_shown if piece.is_code else WEIGHTS.memory_shown)[way.body.tier]
    joined = [id_ for id_ in way.body.joined.ids if id_ in index]
    if way.body.joined.ids:
        others = sum(worths[id_] for id_ in joined)
        shown = shown * WEIGHTS.joined + others / worths[piece.item.id]
    return Size(way.body.tier, way.tokens, shown, way.file, [index[id_] for id_ in joined])


def _place(piece: Piece) -> tuple[str, str, str] | None:
    """Parts of one symbol share a place: naming the best part locates them all."""
    item = piece.item
    if not piece.is_code or not item.symbol or item.kind in APART:
        return None
    return item.repo, item.path, item.symbol


def _recalled(pieces: Sequence[Piece], i: int, way: Way, choice: Choice) -> RecalledItem:
    piece = pieces[i]
    inside = (pieces[other].item.id for other, of in choice.inside.items() if of == i)
    return RecalledItem(
        piece.item,
        piece.score,
        way.body.tier,
        way.text,
        way.tokens,
        piece.reasons,
        piece.trust,
        piece.freshness,
        tuple(dict.fromkeys((*way.body.joined.ids, *inside))),
        piece.arms,
        piece.anchors,
    )


def _omissions(
    pieces: Sequence[Piece], shown: Sequence[Sequence[Way]], choice: Choice, packed: set[int]
) -> tuple[Omission, ...]:
    """Why each unpacked item was left out. For the cause `budget`, `bar` is the tokens that naming it takes."""
    found = []
    for i, piece in enumerate(pieces):
        if i in packed:
            continue
        why = Dropped(STAGE, "duplicate", rank=i + 1)
        if i not in choice.inside:
            need = next((way.tokens for way in shown[i] if way.names), 0)
            cause = choice.refused.get(i, "budget")
            why = Dropped(STAGE, cause, float("nan"), float(need or "nan"), i + 1)
            if cause == "items":
                why = replace(why, score=float(i + 1), bar=float(len(packed)))
        found.append(Omission(piece.item.id, piece.score, why))
    return tuple(found)


def _too_small(limits: Limits) -> str:
    return f"nothing fits into {limits.budget} tokens; give a larger budget"


def _map(pieces: Sequence[Piece], limits: Limits) -> Block:
    """As many signatures as fit, best first; a map lists only code."""
    count = limits.counter.count
    code = [piece for piece in pieces if piece.is_code]
    left = limits.usable - count(repo_map.HEADING)
    chosen: list[repo_map.Line] = []
    costs: list[int] = []
    files: set[str] = set()
    for line in repo_map.lines(code)[: limits.items]:
        head = repo_map.file_line(code[line.piece])
        cost = count(line.text) + (0 if head in files else count(head))
        if cost > left:
            break  # a shorter line further down would be lost within a larger budget
        files.add(head)
        left -= cost
        chosen.append(line)
        costs.append(cost)
    while chosen and count(repo_map.render(code, chosen)) > limits.usable:
        chosen.pop()
        costs.pop()
    context = repo_map.render(code, chosen) if chosen else ""
    shown = {code[line.piece].item.id for line in chosen}
    items = tuple(
        _mapped(code[line.piece], line, cost) for line, cost in zip(chosen, costs, strict=True)
    )
    omitted = tuple(
        Omission(
            p.item.id, p.score, Dropped(STAGE, "budget" if p.is_code else "format", rank=i + 1)
        )
        for i, p in enumerate(pieces)
        if p.item.id not in shown
    )
    silence = "" if chosen else (_too_small(limits) if code else "no code was found to map")
    return Block(
        context, items, omitted, count(context), limits.budget, limits.counter.counted, silence
    )


def _mapped(piece: Piece, line: repo_map.Line, cost: int) -> RecalledItem:
    return RecalledItem(
        piece.item,
        piece.score,
        Tier.OUTLINE,
        line.text,
        cost,
        piece.reasons,
        piece.trust,
        piece.freshness,
        arms=piece.arms,
        anchors=piece.anchors,
    )
