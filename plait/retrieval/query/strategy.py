"""By kind of query: which arms are asked and what they weigh. Chosen by measurement, see docs/experiments/localisation.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plait.retrieval.query.analysis import Analysis, QueryKind
from plait.retrieval.query.code_references import Anchors
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.arms
# A longer text tells a story, and its times are part of it.
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
    """`weights` by arm; an arm of weight 0 is not asked."""

    kind: Kind = Kind.NATURAL
    weights: Mapping[str, float] = field(default_factory=dict)


def choose(
    asked: Analysis, anchors: Anchors, located: float = 0.0, coverage: float = 1.0
) -> Strategy:
    """Pure: the same text gives the same strategy. `located`: how sure the surest place is that the text
    names and that is there; fusion scales an arm's best to 1, so it scales the arm's weight. `coverage`:
    the share of the chunks that have a vector; where few have, the nearest of them may be far."""
    semantic = WEIGHTS.semantic[asked.kind]
    semantic *= WEIGHTS.least_semantic + (1.0 - WEIGHTS.least_semantic) * coverage
    kind = kind_of(asked, anchors)
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


def kind_of(asked: Analysis, anchors: Anchors) -> Kind:
    if anchors.is_diff:
        return Kind.DIFF
    if anchors.is_trace:
        return Kind.TRACE
    if anchors.span is not None and asked.words <= MAX_TEMPORAL:
        return Kind.TEMPORAL
    return Kind.SYMBOL if asked.kind is QueryKind.IDENTIFIERS else Kind.NATURAL
