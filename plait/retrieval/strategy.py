"""By kind of query: which arms are asked and what they weigh. Chosen by measurement, see docs/retrieval.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plait.retrieval.anchors import Anchors
from plait.retrieval.query import Analysis, QueryKind

# Weight of the semantic arm; the lexical one has the rest. Chosen on benchmarks/localisation.py.
SEMANTIC_WEIGHT = {QueryKind.IDENTIFIERS: 0.4, QueryKind.PLAIN: 0.6}
# Weights beside lexical + semantic = 1. An arm that found nothing weighs nothing.
PHRASE_WEIGHT = 0.5
IDENTIFIERS_WEIGHT = 0.5


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


def choose(asked: Analysis, anchors: Anchors) -> Strategy:
    """Pure: the same text gives the same strategy."""
    semantic = SEMANTIC_WEIGHT[asked.kind]
    weights = {
        "semantic": semantic,
        "lexical": 1.0 - semantic,
        "phrase": PHRASE_WEIGHT,
        "identifiers": IDENTIFIERS_WEIGHT,
    }
    kind = Kind.SYMBOL if asked.kind is QueryKind.IDENTIFIERS else Kind.NATURAL
    if anchors.is_diff:
        kind = Kind.DIFF
    elif anchors.is_trace:
        kind = Kind.TRACE
    return Strategy(kind, weights)
