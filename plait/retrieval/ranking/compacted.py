"""Memories that compaction closed: found word for word, below what stands for them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from plait.domain.values import ItemId
from plait.ports import Standing
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories


def compaction_factors(standing: Mapping[ItemId, Standing]) -> dict[ItemId, float]:
    return {id_: WEIGHTS.compacted for id_, known in standing.items() if known.compacted}


def reason(standing: Standing) -> str:
    """In plain words, "" where there is nothing to say."""
    if not standing.compacted:
        return ""
    return f"compacted; memory {standing.replaced_by} stands for it"


def behind_summaries(
    scores: Mapping[ItemId, float], standing: Mapping[ItemId, Standing]
) -> dict[ItemId, float]:
    """`scores`, best first, with what stands for a compacted memory, if it is among them, right before the
    first of those that it stands for, and with its score if that is more than its own."""
    if not any(known.compacted for known in standing.values()):
        return dict(scores)
    by_entry = {
        known.entry: id_ for id_, known in standing.items() if known.entry and id_ in scores
    }
    out: dict[ItemId, float] = {}
    for id_, score in scores.items():
        for one in reversed(list(_chain(id_, by_entry, standing))):
            out.setdefault(one, max(score, scores[one]) if one != id_ else score)
    return out


def _chain(
    id_: ItemId, by_entry: Mapping[UUID, ItemId], standing: Mapping[ItemId, Standing]
) -> Iterator[ItemId]:
    """`id_`, what stands for it, what stands for that."""
    seen: set[ItemId] = set()
    at: ItemId | None = id_
    while at is not None and at not in seen:
        seen.add(at)
        yield at
        known = standing.get(at)
        replaced_by = known.replaced_by if known is not None and known.compacted else None
        at = None if replaced_by is None else by_entry.get(replaced_by)
