"""The score of an agent's item: similarity, importance and recency.

    blend(s, i, r) = s · (w_s + w_i·i + w_r·r) / (w_s + w_i/2 + w_r/2)

with `s` the fused score, `i` the importance and `r = 2^(−age / half-life)`; weights 0.7, 0.2 and 0.1 by
default. The usual sum `w_s·s + w_i·i + w_r·r` (Park et al., "Generative Agents", UIST 2023) gives an item
that has nothing to do with the query 0.3 for being new and important, more than a good hit of code has;
here the two count in proportion to the similarity, and an item of middling importance and age keeps its
fused score, so that code and memories stand in one list. docs/experiments/conversations.md has what either gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking import fusion
from plait.retrieval.ranking.weights import DEFAULT
from plait.settings import RecallSettings

DAY_S = 86_400.0
WEIGHTS = DEFAULT.memories
_NEWEST = re.compile(
    r"\b(?:current(?:ly)?|latest|newest|nowadays|these days|most recent(?:ly)?|at the moment|right now"
    r"|as of (?:now|today)|up[- ]to[- ]date|still|any ?more|anymore)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Blend:
    """Weights that add up to 1, and the half-life of recency."""

    similarity: float
    importance: float
    recency: float
    half_life_s: float

    @classmethod
    def of(cls, settings: RecallSettings, *, newest: bool = False) -> Blend:
        recency = settings.recency_weight * (WEIGHTS.newest if newest else 1.0)
        total = settings.similarity_weight + settings.importance_weight + recency
        if total <= 0.0:
            return cls(1.0, 0.0, 0.0, settings.half_life_days * DAY_S)
        return cls(
            settings.similarity_weight / total,
            settings.importance_weight / total,
            recency / total,
            settings.half_life_days * DAY_S,
        )

    def factor(self, importance: float, recency: float) -> float:
        """What multiplies the fused score: 1.0 for an importance and a recency of one half."""
        middle = self.similarity + (self.importance + self.recency) / 2
        return (self.similarity + self.importance * importance + self.recency * recency) / middle


def asks_for_newest(text: str) -> bool:
    """Whether a text asks for what is so now."""
    return _NEWEST.search(text) is not None


def recency(age_s: float, half_life_s: float) -> float:
    """1.0 now, 0.5 after a half-life; what is yet to come counts as now."""
    return float(2.0 ** (-max(0.0, age_s) / half_life_s))


def origin(places: Iterable[Place]) -> datetime | None:
    """What ages are counted from: the newest of the items that compete. Counted from today, a chat of two
    years ago would have no new and old any more."""
    return max((p.ts for p in places if p.ts is not None and is_agents(p)), default=None)


def is_agents(place: Place) -> bool:
    return place.collection is not Collection.FILES


def age_and_importance(places: Mapping[ItemId, Place], blend: Blend) -> dict[ItemId, float]:
    """What multiplies the fused score of each agent's item; 1.0 is left out. An item without a time is of
    middling age."""
    newest = origin(places.values())
    found: dict[ItemId, float] = {}
    for id_, place in places.items():
        if not is_agents(place):
            continue
        since = 0.5
        if newest is not None and place.ts is not None:
            since = recency((newest - place.ts).total_seconds(), blend.half_life_s)
        factor = blend.factor(place.importance, since)
        if factor != 1.0:
            found[id_] = factor
    return found


def similarity(
    rankings: fusion.Rankings,
    weights: Mapping[str, float],
    unite: fusion.Unite,
    ids: Iterable[ItemId],
) -> dict[ItemId, float]:
    """What multiplies the fused score of agents' items, so that they are fused with `ArmWeights.memories_semantic`; 1.0 is
    left out. Where only one of the main arms was asked there is nothing to weigh."""
    both = weights.get("semantic", 0.0) + weights.get("lexical", 0.0)
    semantic = DEFAULT.arms.memories_semantic * both
    if weights.get("semantic", 0.0) >= semantic or not weights.get("semantic"):
        return {}
    given = unite(rankings, weights)
    reweighed = unite(rankings, {**weights, "semantic": semantic, "lexical": both - semantic})
    found = {id_: reweighed[id_] / given[id_] for id_ in ids if given.get(id_, 0.0) > 0.0}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}
