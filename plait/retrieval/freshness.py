"""What the current index says of the code that a memory is anchored in."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.recall import Freshness
from plait.domain.values import ItemId
from plait.ports import Place, Standing

# Bounded, so that a memory of code that is gone can still be the best answer: why it went is often
# what it tells. Chosen by hand; configs and feedback move items by as much.
FACTORS: Mapping[Freshness, float] = {
    Freshness.FRESH: 1.0,
    Freshness.DRIFTED: 0.9,
    Freshness.ORPHANED: 0.75,
    Freshness.UNVERIFIABLE: 1.0,
}
_REASONS: Mapping[Freshness, str] = {
    Freshness.DRIFTED: "its code has changed since",
    Freshness.ORPHANED: "its code is gone",
}


def freshness(place: Place, standing: Standing | None) -> Freshness:
    """Code is of the revision that answers, so it is fresh; of agents' items their anchor tells."""
    if place.collection == "files":
        return Freshness.FRESH
    if standing is None or not standing.anchored:
        return Freshness.UNVERIFIABLE
    if not standing.there:
        # An anchor that never was there, a file outside the index say, is not gone.
        return Freshness.ORPHANED if standing.known else Freshness.UNVERIFIABLE
    if not standing.known:
        return Freshness.UNVERIFIABLE
    return Freshness.DRIFTED if standing.changed else Freshness.FRESH


def reason(fresh: Freshness) -> str:
    """In plain words, "" where there is nothing to say."""
    return _REASONS.get(fresh, "")


def factors(
    places: Mapping[ItemId, Place], standing: Mapping[ItemId, Standing]
) -> dict[ItemId, float]:
    """What multiplies scores; 1.0 is left out."""
    found = {id_: FACTORS[freshness(place, standing.get(id_))] for id_, place in places.items()}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}
