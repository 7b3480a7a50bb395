"""One ranking by meaning from two models: chunks that have the model's vector by it, the others by the static table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from plait.domain.values import Candidate, ItemId

# With fewer chunks that both have scored, the table's cosines are taken as they are.
LEAST_BOTH = 20


def united(
    by_model: Sequence[Candidate],
    by_table: Sequence[Candidate],
    also: Mapping[ItemId, float],
    k: int,
) -> list[Candidate]:
    """The `k` best, best first, ties by id. `also`: the model's cosines of what the table found, where it has them.

    The table's cosines are brought to the model's scale for this very query: of the chunks that both have scored,
    mean and deviation become the same. docs/experiments/static-table.md compares other ways."""
    model = {**{c.id: c.score for c in by_model}, **also}
    both = [(c.score, model[c.id]) for c in by_table if c.id in model]
    slope, offset = 1.0, 0.0
    if len(both) >= LEAST_BOTH and (spread := pstdev([x for x, _ in both])) > 0.0:
        slope = pstdev([y for _, y in both]) / spread
        offset = fmean(y for _, y in both) - slope * fmean(x for x, _ in both)
    scores = {c.id: offset + slope * c.score for c in by_table} | model
    ranked = [Candidate(id_, score) for id_, score in scores.items()]
    ranked.sort(key=lambda c: (-c.score, c.id.int))
    return ranked[:k]
