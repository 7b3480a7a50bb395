"""What the candidates of one file say of each other, in a list of hits. Pure; measured in docs/experiments/questions.md.

A file of which several chunks fit a question is more often the answer than one with a single lucky chunk; but ten hits
that are all of one file leave no room for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from plait.domain.values import Collection
from plait.ports import Place
from plait.retrieval.ranking.coherence import symbol_of
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.files

# Candidates stand in lists, by their rank: hashing an id costs 0.2 µs, and this would do it 2,000 times a search.
Factors = list[float | None]  # None: nothing is said of it, as a factor of 1


def coherent(places: Sequence[Place], scores: Sequence[float]) -> Factors:
    """Factors in [1/(1 + SHARE), 1]: `(1 + SHARE · T_f / T_best) / (1 + SHARE)` with `T_f` the sum of file f's `BEST`
    best scores. None for what is no code."""
    files = [_file(place) for place in places]
    of_file: dict[tuple[str, str], list[float]] = {}
    for file, score in zip(files, scores, strict=True):
        if file is not None:
            of_file.setdefault(file, []).append(score)
    sums = {
        file: sum(sorted(found, reverse=True)[: WEIGHTS.best]) for file, found in of_file.items()
    }
    top = max(sums.values(), default=0.0)
    if top <= 0.0:
        return [None] * len(places)
    return [
        None if file is None else (1.0 + WEIGHTS.share * sums[file] / top) / (1.0 + WEIGHTS.share)
        for file in files
    ]


def spread(places: Sequence[Place], scores: Sequence[float]) -> Factors:
    """Factors of those that are not the first of their symbol or file, best first: `PART ** n` of the n-th further part,
    and by the order that this leaves `AGAIN ** n` of the n-th further chunk."""
    nth_part = _further(map(symbol_of, places))
    parts = [WEIGHTS.part**n if n else 1.0 for n in nth_part]
    left = [score * part for score, part in zip(scores, parts, strict=True)]
    order = by_score(left)
    nth_again = [0] * len(places)
    for at, n in zip(order, _further(_file(places[at]) for at in order), strict=True):
        nth_again[at] = n
    return [
        part * WEIGHTS.again**again if nth or again else None
        for part, nth, again in zip(parts, nth_part, nth_again, strict=True)
    ]


def by_score(scores: Sequence[float]) -> list[int]:
    """The places in `scores`, best first; equal ones in their order."""
    return sorted(range(len(scores)), key=lambda at: -scores[at])


def _further(groups: Iterable[Hashable | None]) -> list[int]:
    """Of each how many of its group come before it; 0 for what is of none."""
    seen: Counter[Hashable] = Counter()
    found = []
    for group in groups:
        found.append(seen[group] if group is not None else 0)
        seen[group] += 1
    return found


def _file(place: Place) -> tuple[str, str] | None:
    return place.file if place.collection is Collection.FILES else None
