"""Weights of the arms by kind of query. Fitted, see docs/experiments/localisation.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plait.retrieval.query.analysis import Analysis, QueryKind
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.arms
# In longer texts, times are part of a story.
MAX_TEMPORAL = 40  # words


class Kind(StrEnum):
    """Kinds of query that are ranked differently."""

    SYMBOL = "symbol"
    NATURAL = "natural"
    TRACE = "stack-trace"
    DIFF = "diff"
    TEMPORAL = "temporal"
    TRANSACTIONAL = "transactional"  # hello, /clear: nothing is retrieved


@dataclass(frozen=True, slots=True)
class Strategy:
    """`weights` by arm; an arm of weight 0 does not run."""

    kind: Kind = Kind.NATURAL
    weights: Mapping[str, float] = field(default_factory=dict)


def choose(
    analysis: Analysis,
    anchors: Anchors,
    located: float = 0.0,
    coverage: float = 1.0,
    least: float = WEIGHTS.least_semantic,
) -> Strategy:
    """Pure: the same text gives the same strategy. `located`: the highest confidence of a code location named
    in the text and found; it scales the weight of the arm, because fusion scales the best of an arm to 1. `coverage`:
    the share of the chunks that have a vector; if it is low, the nearest of them may be far, and `least` of the arm's
    weight is left."""
    semantic = WEIGHTS.semantic[analysis.kind]
    semantic *= least + (1.0 - least) * coverage
    kind = kind_of(analysis, anchors)
    return Strategy(
        kind,
        {
            "semantic": semantic,
            "lexical": 1.0 - semantic,
            "phrase": WEIGHTS.phrase,
            "identifiers": WEIGHTS.identifiers,
            "exact": WEIGHTS.exact,
            "anchors": WEIGHTS.anchors.get(kind, WEIGHTS.anchors_in_prose) * located,
        },
    )


def kind_of(analysis: Analysis, anchors: Anchors) -> Kind:
    if anchors.is_diff:
        return Kind.DIFF
    if anchors.is_trace:
        return Kind.TRACE
    if anchors.span is not None and analysis.words <= MAX_TEMPORAL:
        return Kind.TEMPORAL
    return Kind.SYMBOL if analysis.kind is QueryKind.IDENTIFIERS else Kind.NATURAL
