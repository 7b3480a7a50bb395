"""From several rankings to one score an item. Pure functions; scores end up in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from plait.domain.values import Candidate, ItemId

# Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
# learning methods", SIGIR 2009: k = 60 is theirs.
RRF_K = 60

# Scores that mean "nothing in common". A cosine has none that any text comes near: the lowest one
# returned serves. Against the lowest for every arm: +1.4 points file recall@5 and function recall@10.
FLOORS: Mapping[str, float] = {"lexical": 0.0, "phrase": 0.0, "identifiers": 0.0}

Rankings = Mapping[str, Sequence[Candidate]]  # by arm, each best first
Scores = dict[ItemId, float]
Unite = Callable[[Rankings, Mapping[str, float]], Scores]


def minmax(rankings: Rankings, weights: Mapping[str, float]) -> Scores:
    """The weighted mean of each arm's scores, scaled so that its best is 1 and its floor 0.

    `Σ_a w_a (s_a − floor_a) / (best_a − floor_a) / Σ_a w_a`, over the arms that found something: a
    convex combination as in Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid
    retrieval", TOIS 42(1), 2023, with their theoretical floor where an arm has one (`FLOORS`), else
    the lowest score returned. An item that an arm did not return counts as at that arm's floor.
    """
    found = {arm: ranking for arm, ranking in rankings.items() if ranking and weights[arm] > 0.0}
    total = sum(weights[arm] for arm in found)
    fused: Scores = {}
    for arm, ranking in found.items():
        share = weights[arm] / total
        for id_, scaled in scale(ranking, FLOORS.get(arm)):
            # Shares add up to 1, but for a rounding.
            fused[id_] = min(1.0, fused.get(id_, 0.0) + share * scaled)
    return fused


def scale(ranking: Sequence[Candidate], floor: float | None = None) -> list[tuple[ItemId, float]]:
    """`ranking` with scores in [0, 1], order kept; all 1 when all are equal. Scores below `floor`,
    which should not be there, lower it."""
    best = max(candidate.score for candidate in ranking)
    lowest = min(candidate.score for candidate in ranking)
    if floor is None or floor > lowest:
        floor = lowest
    span = best - floor
    if span <= 0.0:
        return [(candidate.id, 1.0) for candidate in ranking]
    return [(candidate.id, (candidate.score - floor) / span) for candidate in ranking]


def rrf(rankings: Rankings, weights: Mapping[str, float]) -> Scores:
    """`Σ_a w_a (k + 1) / (k + rank_a) / Σ_a w_a`: 1 for the item that every arm puts first."""
    found = {arm: ranking for arm, ranking in rankings.items() if ranking and weights[arm] > 0.0}
    total = sum(weights[arm] for arm in found)
    fused: Scores = {}
    for arm, ranking in found.items():
        share = weights[arm] / total
        for rank, candidate in enumerate(ranking, start=1):
            part = share * (RRF_K + 1) / (RRF_K + rank)
            fused[candidate.id] = min(1.0, fused.get(candidate.id, 0.0) + part)
    return fused


def order(scores: Mapping[ItemId, float], rankings: Rankings) -> list[ItemId]:
    """Best score first; ties by the best rank in any arm, then by id. Deterministic."""
    # Hashing a UUID costs 0.2 µs and there are hundreds: ranks are looked up only if there are ties.
    best: dict[ItemId, int] = {}
    if len(set(scores.values())) < len(scores):
        for ranking in rankings.values():
            for rank, candidate in enumerate(ranking):
                known = best.get(candidate.id)
                if known is None or rank < known:
                    best[candidate.id] = rank

    def key(entry: tuple[ItemId, float]) -> tuple[float, int, int]:
        return (-entry[1], best[entry[0]], entry[0].int) if best else (-entry[1], 0, 0)

    return [id_ for id_, _ in sorted(scores.items(), key=key)]
