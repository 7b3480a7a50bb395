"""Ranking of memories that compaction closed: below the summaries that replace them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from plait.domain.values import ItemId
from plait.ports import ItemState
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories


def compaction_factors(states: Mapping[ItemId, ItemState]) -> dict[ItemId, float]:
    return {id_: WEIGHTS.compacted for id_, state in states.items() if state.compacted}


def reason(state: ItemState) -> str:
    """The reason in words, "" if it is not compacted."""
    if not state.compacted:
        return ""
    return f"compacted; memory {state.replaced_by} stands for it"


def behind_summaries(
    scores: Mapping[ItemId, float], states: Mapping[ItemId, ItemState]
) -> dict[ItemId, float]:
    """`scores`, best first, with the replacement of a compacted memory, if it is among them, right before the first
    memory that it replaces, and with that memory's score if that is higher than its own."""
    if not any(state.compacted for state in states.values()):
        return dict(scores)
    by_entry = {state.entry: id_ for id_, state in states.items() if state.entry and id_ in scores}
    out: dict[ItemId, float] = {}
    for id_, score in scores.items():
        for one in reversed(list(_chain(id_, by_entry, states))):
            out.setdefault(one, max(score, scores[one]) if one != id_ else score)
    return out


def _chain(
    id_: ItemId, by_entry: Mapping[UUID, ItemId], states: Mapping[ItemId, ItemState]
) -> Iterator[ItemId]:
    """`id_`, its replacement, the replacement of that, and so on."""
    seen: set[ItemId] = set()
    at: ItemId | None = id_
    while at is not None and at not in seen:
        seen.add(at)
        yield at
        state = states.get(at)
        replaced_by = state.replaced_by if state is not None and state.compacted else None
        at = None if replaced_by is None else by_entry.get(replaced_by)
