"""What the candidates of one symbol and of one file say of each other. Pure.

A long function is cut into parts of one name, of which each has a share of its words only: what speaks for
one part speaks for the function. So it is with overloads (`name`, `name#2`, …). Measured in docs/experiments/parts-and-graph.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.parts
# Of a module's parts nothing follows for each other: they are what stands between its functions.
APART = frozenset({"module"})
# Neighbours that a piece of a context is joined with, at most, and how far apart they may stand.
MOST_JOINED = 4
NEAR_LINES = 2

Symbol = tuple[str, str, str]  # repo, path, qualified name


def symbol_of(place: Place) -> Symbol | None:
    """The symbol whose text or part of text stands at `place`; None outside any symbol."""
    if place.collection is not Collection.FILES or not place.symbol:
        return None
    return (place.repo, place.path, place.symbol.partition("#")[0])


def by_symbol(
    order: Sequence[ItemId], places: Mapping[ItemId, Place]
) -> dict[Symbol, list[ItemId]]:
    """The candidates of each symbol that has several, in their order."""
    parts: dict[Symbol, list[ItemId]] = {}
    for id_ in order:
        if (symbol := symbol_of(places[id_])) is not None:
            parts.setdefault(symbol, []).append(id_)
    return {symbol: ids for symbol, ids in parts.items() if len(ids) > 1}


def part_boost(
    groups: Iterable[Sequence[ItemId]],
    places: Mapping[ItemId, Place],
    fused: Mapping[ItemId, float],
    words: int,
) -> dict[ItemId, float]:
    """New scores of those that other parts of their symbol speak for: `s + share · Σ others`, at most 1.
    The share is that of a query of so many `words`."""
    share = WEIGHTS.long_share if words >= WEIGHTS.long_words else WEIGHTS.share
    scores = {}
    for ids in groups:
        if places[ids[0]].kind in APART:
            continue
        total = sum(fused[id_] for id_ in ids)
        for id_ in ids:
            scores[id_] = min(1.0, fused[id_] + share * (total - fused[id_]))
    return scores


def neighbours(
    order: Sequence[ItemId], places: Mapping[ItemId, Place]
) -> dict[ItemId, tuple[ItemId, ...]]:
    """By candidate those others that read as one piece with it: parts of its symbol, what stands right
    before or behind it, what encloses it; at most `MOST_JOINED`, the best first."""
    files: dict[tuple[str, str], list[ItemId]] = {}
    for id_ in order:
        place = places[id_]
        if place.collection is Collection.FILES and place.start_line:
            files.setdefault(place.file, []).append(id_)
    found = {}
    for ids in files.values():
        for id_ in ids if len(ids) > 1 else ():
            near = [o for o in ids if o != id_ and _together(places[id_], places[o])]
            if near:
                found[id_] = tuple(near[:MOST_JOINED])
    return found


def _together(one: Place, other: Place) -> bool:
    same = symbol_of(one)
    if same is not None and same == symbol_of(other):
        return True
    if other.start_line <= one.start_line and one.end_line <= other.end_line:
        return other.kind not in APART  # a class and its method
    gap = max(one.start_line, other.start_line) - min(one.end_line, other.end_line) - 1
    return 0 <= gap <= NEAR_LINES and not (one.symbol and other.symbol)
