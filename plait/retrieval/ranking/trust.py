"""Trust: the source of an item's claim, and whether tests passed."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.recall import Trust
from plait.domain.values import ItemId
from plait.ports import ItemState, Place
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories


def trust(place: Place, state: ItemState | None) -> Trust:
    """External text stays EXTERNAL even if the tests of its run passed: they validate the work of the run, not the
    content of a page."""
    if place.collection == "files":
        return Trust.REPOSITORY
    if state is not None and state.external:
        return Trust.EXTERNAL
    if state is not None and state.proven:
        return Trust.TEST_PASSED
    return Trust.AGENT_CLAIMED


def trust_factors(
    places: Mapping[ItemId, Place], states: Mapping[ItemId, ItemState]
) -> dict[ItemId, float]:
    """Factors of scores by item, without those of 1.0."""
    found = {id_: WEIGHTS.trust[trust(place, states.get(id_))] for id_, place in places.items()}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}
