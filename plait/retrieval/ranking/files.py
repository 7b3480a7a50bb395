"""What the candidates of one file say of each other, in a list of hits. Pure; measured in docs/experiments/questions.md.

A file of which several chunks fit a question is more often the answer than one with a single lucky chunk; but ten hits
that are all of one file leave no room for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking.coherence import symbol_of
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.files

Scores = Mapping[ItemId, float]


def coherent(order: Sequence[ItemId], places: Mapping[ItemId, Place], scores: Scores) -> Scores:
    """Factors in [1/(1 + SHARE), 1]: `(1 + SHARE · T_f / T_best) / (1 + SHARE)` with `T_f` the sum of file f's `BEST`
    best scores. None for what is no code."""
    of_file: dict[tuple[str, str], list[float]] = {}
    for id_ in order:
        if _is_code(places[id_]):
            of_file.setdefault(places[id_].file, []).append(scores[id_])
    sums = {
        file: sum(sorted(found, reverse=True)[: WEIGHTS.best]) for file, found in of_file.items()
    }
    top = max(sums.values(), default=0.0)
    if top <= 0.0:
        return {}
    return {
        id_: (1.0 + WEIGHTS.share * sums[places[id_].file] / top) / (1.0 + WEIGHTS.share)
        for id_ in order
        if _is_code(places[id_])
    }


def spread(order: Sequence[ItemId], places: Mapping[ItemId, Place], scores: Scores) -> Scores:
    """Factors of those that are not the first of their symbol or file, best first: `PART ** n` of the n-th further part,
    and by the order that this leaves `AGAIN ** n` of the n-th further chunk."""
    parts = {
        id_: WEIGHTS.part**n
        for id_, n in _further(order, {i: symbol_of(places[i]) for i in order}).items()
    }
    left = {id_: scores[id_] * parts.get(id_, 1.0) for id_ in order}
    files = {i: places[i].file if _is_code(places[i]) else None for i in order}
    again = _further(sorted(order, key=lambda id_: -left[id_]), files)
    return {
        id_: parts.get(id_, 1.0) * WEIGHTS.again ** again.get(id_, 0)
        for id_ in parts.keys() | again
    }


def _further(
    order: Sequence[ItemId], groups: Mapping[ItemId, tuple[str, ...] | None]
) -> dict[ItemId, int]:
    """How many of its group come before it, of those that are not the first."""
    seen: Counter[tuple[str, ...]] = Counter()
    found = {}
    for id_ in order:
        if (group := groups[id_]) is None:
            continue
        if before := seen[group]:
            found[id_] = before
        seen[group] += 1
    return found


def _is_code(place: Place) -> bool:
    return place.collection is Collection.FILES
