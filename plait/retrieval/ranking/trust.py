"""Where an item's claim comes from."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.recall import Trust
from plait.domain.values import ItemId
from plait.ports import Place, Standing
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories


def trust(place: Place, standing: Standing | None) -> Trust:
    """Text from outside stays external though its run passed its tests: those prove what was done, not
    what a page said."""
    if place.collection == "files":
        return Trust.REPOSITORY
    if standing is not None and standing.external:
        return Trust.EXTERNAL
    if standing is not None and standing.proven:
        return Trust.TEST_PASSED
    return Trust.AGENT_CLAIMED


def trust_factors(
    places: Mapping[ItemId, Place], standing: Mapping[ItemId, Standing]
) -> dict[ItemId, float]:
    """What multiplies scores; 1.0 is left out."""
    found = {id_: WEIGHTS.trust[trust(place, standing.get(id_))] for id_, place in places.items()}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}
