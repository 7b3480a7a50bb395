"""Whether any candidate is an answer at all. Fused scores can't tell: min-max gives the best of a bad lot
1.0. What can is how the arms' own scores compare with what an answer would have had:

- `coverage`: the best BM25 score over the sum of the terms' idf, which is about what a text of middling
  length with each term once would score. Terms that are nowhere count with the highest idf there is: a
  question for something that the repository has never heard of is full of them.
- `rise`: how far the best cosine stands above those of its neighbours in rank, in their standard deviations. Free of
  the model's scale.
- `cosine`: the best one itself, only for the model that came with Plait, whose scale is known.
- `agreement`: whether what words put first meanings put near the top as well.

A logistic regression turns them into the chance that some candidate answers. Its weights and the bar were
fitted on one half of the sets of benchmarks/memory_silence.py; docs/recall.md has what they do on the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plait.domain.values import Candidate
from plait.retrieval.context import Deps, SearchContext
from plait.retrieval.strategy import Kind

# The model that `cosine` was calibrated on; of another only `rise` counts.
CALIBRATED = "all-MiniLM-L6-v2"
# Ranks whose cosines are the background of the best one's.
BACKGROUND = slice(10, 150)
MIN_BACKGROUND = 20
# Below so many documents an idf says little and there is no background.
MIN_TERMS_IDF = 1.0
HEAD = 10


@dataclass(frozen=True, slots=True)
class Features:
    """What speaks for an answer. `rise` and `cosine` are None where the arm can't tell."""

    coverage: float
    terms: int
    rise: float | None = None
    cosine: float | None = None
    agreement: float = 0.0


@dataclass(frozen=True, slots=True)
class Weights:
    bias: float
    coverage: float
    long: float  # of coverage · ln(terms): longer texts are covered less
    terms: float  # of ln(terms)
    rise: float
    cosine: float
    agreement: float

    def chance(self, f: Features) -> float:
        long = math.log(max(1, f.terms))
        x = self.bias + self.coverage * f.coverage + self.long * f.coverage * long
        x += self.terms * long + self.agreement * f.agreement
        x += self.rise * (f.rise or 0.0) + self.cosine * (f.cosine or 0.0)
        return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))


WITH_COSINE = Weights(-5.0, 3.0, 1.0, 0.5, 0.2, 8.0, 0.5)
WITH_RISE = Weights(-2.5, 4.0, 1.0, 0.5, 0.4, 0.0, 0.5)
WORDS_ALONE = Weights(-1.5, 6.0, 1.0, 0.5, 0.0, 0.0, 0.0)


async def support(ctx: SearchContext, deps: Deps) -> float | None:
    """The chance that a candidate answers, None where that is no question: a text that names code that is
    there, a diff, a trace, or nothing found at all."""
    if not ctx.order or ctx.strategy.kind in (Kind.DIFF, Kind.TRACE):
        return None
    if any(ctx.rankings.get(arm) for arm in ("anchors", "phrase")):
        return None
    rarity: Mapping[str, float] = {}
    if ctx.asked.terms and "lexical" in ctx.rankings:
        rarity = await deps.store.rarity(ctx.at, ctx.asked.terms, ctx.query.where)
    calibrated = CALIBRATED in ctx.at.model
    return chance(features(ctx.rankings, rarity, calibrated=calibrated))


def chance(f: Features) -> float:
    """Larger is surer; `recall.silence` is where it is too little."""
    if f.cosine is not None:
        return WITH_COSINE.chance(f)
    return (WITH_RISE if f.rise is not None else WORDS_ALONE).chance(f)


def features(
    rankings: Mapping[str, Sequence[Candidate]], rarity: Mapping[str, float], *, calibrated: bool
) -> Features:
    """`rarity`: by term of the query its idf, the highest for one that is nowhere."""
    words, meanings = rankings.get("lexical", ()), rankings.get("semantic", ())
    telling = [idf for idf in rarity.values() if idf >= MIN_TERMS_IDF] or list(rarity.values())
    total = sum(telling)
    coverage = min(2.0, words[0].score / total) if words and total > 0.0 else 0.0
    return Features(
        coverage,
        len(telling),
        _rise(meanings),
        meanings[0].score if meanings and calibrated else None,
        _agreement(words, meanings),
    )


def _rise(meanings: Sequence[Candidate]) -> float | None:
    background = np.array([c.score for c in meanings[BACKGROUND]])
    if len(background) < MIN_BACKGROUND:
        return None
    spread = float(background.std())
    if spread < 1e-6:
        return None
    return min(30.0, (meanings[0].score - float(background.mean())) / spread)


def _agreement(words: Sequence[Candidate], meanings: Sequence[Candidate]) -> float:
    """Share of the first ten by words that are among the first ten by meaning, of what is possible."""
    if not words or not meanings:
        return 0.0
    near = {c.id for c in meanings[:HEAD]}
    return sum(c.id in near for c in words[:HEAD]) / min(len(near), len(words[:HEAD]))
