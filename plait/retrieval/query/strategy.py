"""By kind of query: which arms are asked and what they weigh. Chosen by measurement, see docs/retrieval.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from plait.retrieval.query.analysis import Analysis, QueryKind
from plait.retrieval.query.code_references import Anchors

# Weight of the semantic arm; the lexical one has the rest. Chosen on benchmarks/localisation.py.
SEMANTIC_WEIGHT = {QueryKind.IDENTIFIERS: 0.4, QueryKind.PLAIN: 0.6}
# One vector says less of a long text, an issue's say, than its words do: +2.6 of function MRR and +1.9 of
# recall@10 on the 58 of 300 messages that are as long, +0.9 of MRR on those held out. Of a report only what it
# says is embedded.
LONG, LONG_SHARE = 30, 0.75  # words
# Share of the weight that the semantic arm keeps where no code has a vector yet, for what agents wrote. A
# guess; with the whole weight a note on anything came before the code that has the query's words.
LEAST_SEMANTIC = 0.3
# Weights beside lexical + semantic = 1. An arm that found nothing weighs nothing.
PHRASE_WEIGHT = 0.5
IDENTIFIERS_WEIGHT = 0.5
# What few of the agents' items hold of the query's numbers: "run 1234" is not about run 1235.
EXACT_WEIGHT = 1.0
# A longer text tells a story, and its times are part of it.
MAX_TEMPORAL = 40  # words
# Of the places that the text names, where they are sure: a trace and a diff are about them, prose
# mentions files. There 0.3 to 0.6 are the same (+0.1 to 0.2 of function MRR, +0.4 of recall@10).
ANCHORS_IN_PROSE = 0.5


class Kind(StrEnum):
    """Kinds of query that are ranked differently."""

    SYMBOL = "symbol"
    NATURAL = "natural"
    TRACE = "stack-trace"
    DIFF = "diff"
    TEMPORAL = "temporal"
    TRANSACTIONAL = "transactional"  # hello, /clear: nothing is retrieved


# Over traces through three functions of Django each, their lines moved by up to 25, 1 and 2 both put the
# innermost first in 90 of 100; with 1 the other two are among the first five in 63, with 2 in 89.
ANCHORS_WEIGHT = {Kind.TRACE: 1.5, Kind.DIFF: 1.5}


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
    whole = asked.words < LONG or bool(asked.weights)
    semantic = SEMANTIC_WEIGHT[asked.kind] * (1.0 if whole else LONG_SHARE)
    semantic *= LEAST_SEMANTIC + (1.0 - LEAST_SEMANTIC) * coverage
    kind = kind_of(asked, anchors)
    return Strategy(
        kind,
        {
            "semantic": semantic,
            "lexical": 1.0 - semantic,
            "phrase": PHRASE_WEIGHT,
            "identifiers": IDENTIFIERS_WEIGHT,
            "exact": EXACT_WEIGHT,
            "anchors": ANCHORS_WEIGHT.get(kind, ANCHORS_IN_PROSE) * located,
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
