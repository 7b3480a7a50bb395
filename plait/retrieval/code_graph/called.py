"""Which symbols much code calls. Pure."""

from __future__ import annotations

import numpy as np

from plait.domain.graph import Relation
from plait.ports import CodeGraph
from plait.retrieval.code_graph.related import symbol_of


def most_called(graph: CodeGraph, most: int) -> list[tuple[str, str]]:
    """`(path, symbol)` of what most other symbols call, as chunks have them: the most callers first, ties by row; at
    most `most`, and nothing that nobody calls."""
    target = np.repeat(np.arange(len(graph.ids)), np.diff(graph.in_start))
    calls = graph.in_relation == graph.relations.index(Relation.CALLS.value)
    calls &= graph.in_other != target
    callers = np.bincount(target[calls], minlength=len(graph.ids))
    rows = np.argsort(-callers, kind="stable")[:most]
    called = rows[callers[rows] > 0].tolist()
    return [(graph.paths[row], symbol_of(graph, row)) for row in called]
