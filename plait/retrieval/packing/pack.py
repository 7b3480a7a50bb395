"""Ranked items to a `Block`: never over its budget, nothing twice, and a cause for whatever is left out."""

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
from plait.retrieval.coherence import APART
from plait.retrieval.packing import markdown, repo_map, structured
from plait.retrieval.packing.choose import SAID, SHOWN, Choice, Entry, Size, choose, worth
from plait.retrieval.packing.dedupe import shown_twice
from plait.retrieval.packing.piece import Body, Piece, bodies, outlined, place
from plait.tokens import Counter

STAGE = "format"
CODE, MEMORY = "code", "memory"
# Kinds of chunks that are in no function.
_OUTSIDE = frozenset(["class", "module", "doc", "config", "code"])
# Joined neighbours are worth a little more than the item alone: they make it readable.
JOINED_SHOWN = 1.05
# Characters a token may stand for in what is still counted; 1 MB of blanks is not worth the time.
MAX_CHARS_A_TOKEN = 16
# What a change reaches may take so much of the budget.
PREFACE_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Limits:
    """`budget`: as it was asked for. `shares`: of what may be used, by group."""

    budget: int
    counter: Counter
    items: int
    shares: Mapping[str, float]

    @property
    def usable(self) -> int:
        return self.counter.usable(self.budget)


@dataclass(frozen=True, slots=True)
class _Shown:
    """One way to show a piece, dressed and counted. `file`: under whose bullet it stands, "" for none;
    `alone`: further tokens if it were a bullet itself."""

    body: Body
    text: str
    tokens: int
    file: str = ""
    alone: int = 0


def pack(
    pieces: Sequence[Piece], limits: Limits, format_: RecallFormat, preface: Sequence[str] = ()
) -> Block:
    """The context of `pieces`, best first and of unequal ids. `preface`: lines that come before them,
    the most important first, as many as fit."""
    if format_ is RecallFormat.REPO_MAP:
        return _map(pieces, limits)
    return _list(pieces, limits, format_, preface)


def silent(limits: Limits, why: str, omitted: tuple[Omission, ...] = ()) -> Block:
    """Nothing, and why."""
    return Block("", (), omitted, 0, limits.budget, limits.counter.said, why)


def _list(
    pieces: Sequence[Piece], limits: Limits, format_: RecallFormat, preface: Sequence[str]
) -> Block:
    count = limits.counter.count
    bare = format_ is RecallFormat.STRUCTURED
    head = "" if bare else markdown.HEADING
    lines, left = _preface([] if bare else preface, limits, count(head))
    shown = [_ways(piece, limits, bare) for piece in pieces]
    choice, repeats = _chosen(pieces, shown, limits, left)
    ways = {i: shown[i][size] for i, size in enumerate(choice.sizes) if size >= 0}
    ways = _in_order(pieces, ways, count)
    texts = [head, *lines, *(way.text for way in ways.values())]
    # The parts add up by construction; if a tokenizer should ever disagree, the last goes.
    while ways and not bare and count("".join(texts)) > limits.usable:
        texts.pop()
        ways.popitem()
    if not ways and not lines:
        return silent(limits, _too_small(limits), _omissions(pieces, shown, choice, repeats, set()))
    context = "" if bare else "".join(texts)
    tokens = choice.spent if bare else count(context)
    items = tuple(_recalled(pieces[i], way, _inside(pieces, repeats, i)) for i, way in ways.items())
    return Block(
        context,
        items,
        _omissions(pieces, shown, choice, repeats, set(ways)),
        tokens,
        limits.budget,
        limits.counter.said,
    )


def _in_order(
    pieces: Sequence[Piece], ways: Mapping[int, _Shown], count: Callable[[str], int]
) -> dict[int, _Shown]:
    """By their best: what has a bullet of its own, and files with the places that are named of them. The
    first place of a file comes with its file's bullet."""
    files: dict[str, list[int]] = {}
    for i, way in ways.items():
        if way.file:
            files.setdefault(way.file, []).append(i)
    ordered: dict[int, _Shown] = {}
    for i, way in ways.items():
        if i in ordered:
            continue
        first, *rest = files[way.file] if way.file else [i]
        ordered[first] = _headed(pieces[first], ways[first], count, alone=not rest)
        ordered |= {other: ways[other] for other in rest}
    return ordered


def _headed(piece: Piece, way: _Shown, count: Callable[[str], int], *, alone: bool) -> _Shown:
    """With its file's bullet above it; the only place of its file as a bullet itself."""
    if not way.file:
        return way
    if alone:
        text = markdown.bullet(piece, way.body)
        return replace(way, text=text, tokens=count(text))
    text = markdown.head(piece)
    return replace(way, text=text + way.text, tokens=count(text) + way.tokens)


def _ways(piece: Piece, limits: Limits, bare: bool) -> list[_Shown]:
    """Each tier's text and tokens; one that is no shorter than the tier above it is none."""
    found: list[_Shown] = []
    counted: dict[str, int] = {"": 0}  # most tiers begin with the same line
    file = place(piece, ()) if piece.is_code and not bare else ""

    def counts(part: str) -> int:
        if part not in counted:
            counted[part] = limits.counter.count(part)
        return counted[part]

    for body in bodies(piece, MAX_CHARS_A_TOKEN * limits.usable):
        parts = ("", structured.text(piece, body)) if bare else markdown.parts(piece, body)
        alone = 0
        if file and body.tier is not Tier.FULL:
            bullet, parts = parts[0], markdown.under(piece, body)
            alone = counts(bullet) - counts(parts[0])
        tokens = counts(parts[0]) + counts(parts[1])
        if not found or tokens < found[-1].tokens:
            of = file if body.tier is not Tier.FULL else ""
            found.append(_Shown(body, "".join(parts), tokens, of, alone))
    return found


def _preface(preface: Sequence[str], limits: Limits, head: int) -> tuple[list[str], int]:
    """The lines that fit, and the tokens that are left for items."""
    left = limits.usable - head
    most = int(left * PREFACE_SHARE)
    lines: list[str] = []
    used = 0
    for line in preface:
        text = f"{line.rstrip()}\n"
        tokens = limits.counter.count(text)
        if used + tokens > most:
            break
        lines.append(text)
        used += tokens
    return lines, left - used


def _chosen(
    pieces: Sequence[Piece], shown: Sequence[Sequence[_Shown]], limits: Limits, left: int
) -> tuple[Choice, dict[int, int]]:
    """What is shown of each piece; and of those whose text stands in another's, in which."""
    repeats: dict[int, int] = {}
    worths = {piece.item.id: _worth(piece) for piece in pieces}
    heads = _heads(pieces, shown, limits)
    while True:
        entries = [
            Entry(
                worths[piece.item.id],
                CODE if piece.is_code else MEMORY,
                () if i in repeats else [_size(piece, way, worths) for way in shown[i]],
            )
            for i, piece in enumerate(pieces)
        ]
        choice = choose(entries, left, limits.shares, limits.items, heads)
        more = _repeated(pieces, shown, choice)
        if not more:
            return choice, repeats
        repeats |= more


def _worth(piece: Piece) -> float:
    if not piece.is_code:
        return worth(piece.score)
    return worth(piece.score, len(piece.item.content), outside=piece.item.kind in _OUTSIDE)


def _heads(
    pieces: Sequence[Piece], shown: Sequence[Sequence[_Shown]], limits: Limits
) -> dict[str, int]:
    """The most tokens that a file's bullet takes, whose score has two digits whoever is the first under it,
    or that its only place takes more as a bullet itself."""
    heads: dict[str, int] = {}
    for piece, ways in zip(pieces, shown, strict=True):
        for way in ways:
            if way.file:
                if way.file not in heads:
                    heads[way.file] = limits.counter.count(markdown.head(piece))
                heads[way.file] = max(heads[way.file], way.alone)
    return heads


def _size(piece: Piece, way: _Shown, worths: Mapping[ItemId, float]) -> Size:
    """Joined candidates bring what they are worth themselves."""
    shown = (SHOWN if piece.is_code else SAID)[way.body.tier]
    if way.body.joined.ids:
        others = sum(worths.get(id_, 0.0) for id_ in way.body.joined.ids)
        shown = shown * JOINED_SHOWN + others / worths[piece.item.id]
    return Size(way.body.tier, way.tokens, shown, way.file)


def _repeated(
    pieces: Sequence[Piece], shown: Sequence[Sequence[_Shown]], choice: Choice
) -> dict[int, int]:
    """Of what was chosen, by index the piece of code that shows it already."""
    index = {piece.item.id: i for i, piece in enumerate(pieces)}
    chosen = [i for i, size in enumerate(choice.sizes) if size >= 0]
    bodies_ = {i: shown[i][choice.sizes[i]].body for i in chosen}
    whole = {
        pieces[i].item.id: body.block
        for i, body in bodies_.items()
        if pieces[i].is_code and body.tier is Tier.FULL
    }
    found = {
        index[id_]: i
        for i, body in bodies_.items()
        if body.tier is Tier.FULL
        for id_ in body.joined.ids
        if choice.sizes[index.get(id_, i)] >= 0 and index.get(id_, i) != i
    }
    items = {pieces[i].item.id: pieces[i].item for i in chosen if i not in found}
    whole = {id_: text for id_, text in whole.items() if id_ in items}
    found |= {index[a]: index[b] for a, b in shown_twice(whole, items).items()}
    return found | _parts(pieces, {i: body for i, body in bodies_.items() if i not in found})


def _parts(pieces: Sequence[Piece], shown: Mapping[int, Body]) -> dict[int, int]:
    """Of parts of one symbol those that are only named, by index the one that shows more or is better:
    where the symbol is has been said then."""
    best: dict[tuple[str, str, str], int] = {}
    for i in sorted(shown, key=lambda i: (-SHOWN[shown[i].tier], i)):
        item = pieces[i].item
        if pieces[i].is_code and item.symbol and item.kind not in APART:
            best.setdefault((item.repo, item.path, item.symbol), i)
    found = {}
    for i, body in shown.items():
        item = pieces[i].item
        other = best.get((item.repo, item.path, item.symbol), i)
        if other != i and (body.tier is Tier.LINE or outlined(pieces[i]).part) and not body.block:
            found[i] = other
    return found


def _inside(pieces: Sequence[Piece], repeats: Mapping[int, int], i: int) -> tuple[ItemId, ...]:
    return tuple(pieces[a].item.id for a, b in repeats.items() if b == i)


def _recalled(piece: Piece, way: _Shown, inside: tuple[ItemId, ...]) -> RecalledItem:
    also = tuple(dict.fromkeys((*way.body.joined.ids, *inside)))
    return RecalledItem(
        piece.item,
        piece.score,
        way.body.tier,
        way.text,
        way.tokens,
        piece.reasons,
        piece.trust,
        piece.freshness,
        also,
        piece.arms,
        piece.anchors,
    )


def _omissions(
    pieces: Sequence[Piece],
    shown: Sequence[Sequence[_Shown]],
    choice: Choice,
    repeats: Mapping[int, int],
    kept: set[int],
) -> tuple[Omission, ...]:
    """Of a budget or quota `score` is what was left and `bar` the tokens of the item's smallest tier."""
    found = []
    for i, piece in enumerate(pieces):
        if i in kept:
            continue
        why = Dropped(STAGE, "duplicate", rank=i + 1)
        if i not in repeats:
            need = min((way.tokens for way in shown[i]), default=0)
            cause = choice.refused.get(i, "budget")
            why = Dropped(STAGE, cause, float("nan"), float(need or "nan"), i + 1)
            if cause == "items":
                why = replace(why, score=float(i + 1), bar=float(len(kept)))
        found.append(Omission(piece.item.id, piece.score, why))
    return tuple(found)


def _too_small(limits: Limits) -> str:
    return f"nothing fits into {limits.budget} tokens; give a larger budget"


def _map(pieces: Sequence[Piece], limits: Limits) -> Block:
    """As many signatures as fit, best first; what is no code has no place in a map."""
    count = limits.counter.count
    code = [piece for piece in pieces if piece.is_code]
    left = limits.usable - count(repo_map.HEADING)
    chosen: list[repo_map.Line] = []
    costs: list[int] = []
    files: set[str] = set()
    for line in repo_map.lines(code)[: limits.items]:
        head = repo_map.file_line(code[line.piece])
        cost = count(line.text) + (0 if head in files else count(head))
        if cost <= left:
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
        context, items, omitted, count(context), limits.budget, limits.counter.said, silence
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
