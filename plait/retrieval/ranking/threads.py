"""The neighbour boost: turns of one session raise each other. Pure.

Turns answer each other: "Yes, Friday at six" has no word of the question about the dinner, the turn before it has all
of them. So each turn gets a share of its neighbours' scores. A question is seldom the answer, and a turn of three
words is seldom informative. Measured in docs/experiments/conversations.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from plait.domain.values import Collection, ItemId
from plait.ports import Around, Place
from plait.retrieval.ranking import fusion
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.threads
# Facts, rules and how-tos: short but self-contained.
WHOLE = frozenset(["semantic", "procedural"])


def seeds(
    order: Sequence[ItemId], places: Mapping[ItemId, Place], words: Mapping[ItemId, float]
) -> list[ItemId]:
    """The best turns of sessions and runs, overall and by `words` (lexical scores)."""
    turns = [id_ for id_ in order if in_thread(places[id_])]
    by_words = sorted((i for i in turns if i in words), key=lambda i: -words[i])
    return list(dict.fromkeys((*turns[: WEIGHTS.seeds], *by_words[: WEIGHTS.seeds])))


def by_words(rankings: fusion.Rankings, weights: Mapping[str, float]) -> dict[ItemId, float]:
    """The lexical part of each item's fused score."""
    both = weights.get("lexical", 0.0) + weights.get("semantic", 0.0)
    ranking = rankings.get("lexical")
    if not ranking or not both:
        return {}
    share = weights["lexical"] / both if rankings.get("semantic") else 1.0
    return {id_: share * value for id_, value in fusion.scale(ranking, fusion.floor_of("lexical"))}


def in_thread(place: Place) -> bool:
    in_session = bool(place.session_key) or place.episode_id is not None
    return in_session and place.collection is Collection.MEMORIES


def first_turns(around: Around) -> frozenset[ItemId]:
    """The memories in `around` without a turn before them."""
    return frozenset(id_ for id_, beside in around.items() if -1 not in beside.values())


def before(around: Around, places: Mapping[ItemId, Place]) -> dict[ItemId, ItemId]:
    """By turn that is too short to be understood alone, the turn right before it."""
    found: dict[ItemId, ItemId] = {}
    for id_, beside in around.items():
        place = places.get(id_)
        if (
            place is not None
            and 0 < place.tokens <= WEIGHTS.short_reply
            and place.type not in WHOLE
        ):
            found.update((id_, other) for other, step in beside.items() if step == -1)
    return found


def neighbour_boost(
    around: Around,
    fused: Mapping[ItemId, float],
    best: Sequence[ItemId],
    words: Mapping[ItemId, float] = MappingProxyType({}),
) -> dict[ItemId, float]:
    """New scores of turns with scored neighbours: `s + Σ share / |step| · s'`, plus `answer` times the lexical score of
    the turn before, scaled so that the highest score of `best` is unchanged. Turns that no arm found have `s` = 0."""
    # By number: ids are hashed in Python, 0.2 µs each, and there are hundreds of pairs.
    number: dict[ItemId, int] = {}
    known: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for seed, beside in around.items():
        if not beside:
            continue
        b = number.setdefault(seed, len(number))
        for id_, step in beside.items():
            a = number.setdefault(id_, len(number))
            known[a][b], known[b][a] = step, -step
    own = [fused.get(id_, 0.0) for id_ in number]
    said = [words.get(id_, 0.0) for id_ in number]
    # Exact sums: rows are unordered, and a replay must give equal bits.
    scores = {
        id_: math.fsum(
            (
                own[at],
                *(WEIGHTS.share / abs(step) * own[other] for other, step in known[at].items()),
                *(WEIGHTS.answer * said[other] for other, step in known[at].items() if step == 1),
            )
        )
        for id_, at in number.items()
    }
    top = max((fused.get(id_, 0.0) for id_ in best), default=0.0)
    most = max(scores.values(), default=0.0)
    most = max([most, *(fused.get(id_, 0.0) for id_ in best if id_ not in scores)])
    if most > top > 0.0:
        scale = top / most
        scores |= {id_: fused[id_] for id_ in best if id_ not in scores}
        scores = {id_: score * scale for id_, score in scores.items()}
    return scores


def turn_factors(places: Mapping[ItemId, Place]) -> dict[ItemId, float]:
    """Factors of turns by their length and kind."""
    found = {}
    for id_, place in places.items():
        if in_thread(place) and place.tokens and place.type not in WHOLE:
            found[id_] = turn_factor(place.tokens, asks=place.is_question)
    return found


def turn_factor(tokens: int, *, asks: bool) -> float:
    return (WEIGHTS.question if asks else 1.0) * (
        1.0 - WEIGHTS.short * math.exp(-tokens / WEIGHTS.tokens)
    )
