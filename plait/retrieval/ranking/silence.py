"""Whether any candidate is an answer at all. Fused scores can't tell: min-max gives the best of a bad lot
1.0. What can is how the arms' own scores compare with what an answer would have had:

- `coverage`: the best BM25 score over the sum of the terms' idf, which is about what a text of middling
  length with each term once would score. Terms that are nowhere count with the highest idf there is: a
  question for something that the repository has never heard of is full of them.
- `unseen`: the share of the query's weight that is in words which are nowhere.
- `cosine`: the best one, only for the model that came with Plait, whose scale is known.

A logistic regression turns them into a number from 0 to 1, the larger the likelier an answer; no
probability, since its cases were balanced and its bias set so that `recall.silence` of 0.05 costs 0.5 % of
the answers it was fitted on. That was one half of the sets of benchmarks/memory_silence.py; docs/experiments/silence.md
has what it does on the other, and which further features were left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

from plait.domain.values import Candidate
from plait.retrieval.ranking.weights import DEFAULT, SilenceRegression
from plait.retrieval.search_context import Deps, SearchContext

WEIGHTS = DEFAULT.silence
# The model that `cosine` was calibrated on; with another one words alone decide.
CALIBRATED = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class Features:
    """What speaks for an answer. `cosine` is None where the model's scale is unknown, or none was asked."""

    coverage: float
    terms: int
    cosine: float | None = None
    unseen: float = 0.0


def row(f: Features) -> list[float]:
    """What `SilenceRegression` weighs, in its order."""
    length = math.log1p(f.terms)
    return [1.0, f.coverage * length, length, f.unseen, f.cosine or 0.0]


async def support(ctx: SearchContext, deps: Deps) -> float | None:
    """The chance that a candidate answers, None where that is no question: see `evidence`."""
    found = await evidence(ctx, deps)
    return None if found is None else chance(found)


async def evidence(ctx: SearchContext, deps: Deps) -> Features | None:
    """None for a text that names what is there: code, a quotation, a number; or where nothing was found. A
    trace or a diff of other code names nothing."""
    if not ctx.order or any(ctx.rankings.get(arm) for arm in ("anchors", "phrase", "exact")):
        return None
    similar = ctx.rankings.get("identifiers")
    if similar and similar[0].score >= WEIGHTS.same_name:
        return None
    documents = 0
    holding: Mapping[str, int] = {}
    if ctx.analysis.terms and "lexical" in ctx.rankings:
        documents, holding = await deps.store.counts(ctx.at, ctx.analysis.terms, ctx.query.where)
    calibrated = CALIBRATED in ctx.at.model
    return features(ctx.rankings, documents, holding, calibrated=calibrated)


def chance(f: Features) -> float:
    """Larger is surer; `recall.silence` is where it is too little."""
    return logistic(WEIGHTS.words_alone if f.cosine is None else WEIGHTS.with_cosine, f)


def logistic(regression: SilenceRegression, f: Features) -> float:
    """`1 / (1 + e^(−Σ w·x))`, in [0, 1]."""
    x = sum(w * v for w, v in zip(astuple(regression), row(f), strict=True))
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))


def features(
    rankings: Mapping[str, Sequence[Candidate]],
    documents: int,
    holding: Mapping[str, int],
    *,
    calibrated: bool,
) -> Features:
    """`holding`: by term of the query in how many of `documents` it is."""
    words, meanings = rankings.get("lexical", ()), rankings.get("semantic", ())
    idf = {term: _idf(documents, n) for term, n in holding.items()}
    telling = {t: v for t, v in idf.items() if v >= WEIGHTS.min_idf} or idf
    total = sum(telling.values())
    missing = sum(v for term, v in telling.items() if not holding[term])
    return Features(
        min(2.0, words[0].score / total) if words and total > 0.0 else 0.0,
        len(telling),
        meanings[0].score if meanings and calibrated else None,
        missing / total if total > 0.0 else 0.0,
    )


def _idf(documents: int, holding: int) -> float:
    """As BM25 has it."""
    return math.log(1.0 + (documents - holding + 0.5) / (holding + 0.5))
