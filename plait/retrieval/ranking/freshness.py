"""What the current index says of the code that a memory is anchored in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.domain.recall import AnchorState, Freshness, NamedAnchor
from plait.domain.values import ItemId
from plait.ports import Place, Standing
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories
_REASONS: Mapping[Freshness, str] = {
    Freshness.DRIFTED: "its code has changed since",
    Freshness.ORPHANED: "its code is gone",
}
MAX_EXPLAINED = 3  # places that a reason names


def freshness(place: Place, standing: Standing | None) -> Freshness:
    """Code is of the revision that answers, so it is fresh; of agents' items their anchor tells, and
    what their text names."""
    if place.collection == "files":
        return Freshness.FRESH
    if standing is None:
        return Freshness.UNVERIFIABLE
    given, named = _given(standing), _named(standing.named)
    if given in _REASONS or named is Freshness.UNVERIFIABLE:
        return given
    if given is Freshness.FRESH and named is Freshness.ORPHANED:
        return Freshness.DRIFTED
    return named


def _given(standing: Standing) -> Freshness:
    if not standing.anchored:
        return Freshness.UNVERIFIABLE
    if not standing.there:
        # An anchor that never was there, a file outside the index say, is not gone.
        return Freshness.ORPHANED if standing.known else Freshness.UNVERIFIABLE
    if not standing.known:
        return Freshness.UNVERIFIABLE
    return Freshness.DRIFTED if standing.changed else Freshness.FRESH


def _named(named: Sequence[NamedAnchor]) -> Freshness:
    """All is gone: ORPHANED; some is gone or changed: DRIFTED."""
    if not named:
        return Freshness.UNVERIFIABLE
    gone = sum(one.state is AnchorState.GONE for one in named)
    if gone == len(named):
        return Freshness.ORPHANED
    changed = any(one.state is AnchorState.CHANGED for one in named)
    return Freshness.DRIFTED if gone or changed else Freshness.FRESH


def reason(place: Place, standing: Standing | None) -> str:
    """In plain words what changed, "" where there is nothing to say."""
    if standing is None or place.collection == "files":
        return ""
    given = _REASONS.get(_given(standing), "")
    explanations = [text for one in standing.named if (text := _explanation(one))]
    more = len(explanations) - MAX_EXPLAINED
    return "; ".join(
        text
        for text in (given, *explanations[:MAX_EXPLAINED], f"{more} more" if more > 0 else "")
        if text
    )


def _explanation(one: NamedAnchor) -> str:
    where = f"{_own(one)} in {one.path}" if one.symbol else one.path
    if one.state is AnchorState.GONE:
        return f"{where} is gone"
    if one.state is AnchorState.MOVED:
        return f"{where} is in {one.to} now"
    if one.state is AnchorState.CHANGED:
        return f"{where} is in {one.to} now and changed" if one.to else f"{where} changed since"
    return ""


def _own(one: NamedAnchor) -> str:
    """The symbol without what the path says: `Session.get` of `src.app.Session.get` in src/app.py."""
    folder, _, file = one.path.rpartition("/")
    parts = [*folder.split("/"), file.partition(".")[0]]
    if parts[-1] == "__init__":
        parts.pop()
    for n in range(len(parts)):
        module = ".".join(parts[n:])
        if one.symbol.startswith(f"{module}."):
            return one.symbol[len(module) + 1 :]
    return one.symbol


def freshness_factors(
    places: Mapping[ItemId, Place], standing: Mapping[ItemId, Standing]
) -> dict[ItemId, float]:
    """What multiplies scores; 1.0 is left out."""
    found = {id_: _factor(place, standing.get(id_)) for id_, place in places.items()}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}


def _factor(place: Place, standing: Standing | None) -> float:
    state = freshness(place, standing)
    given = standing is not None and _given(standing) in _REASONS
    return (WEIGHTS.freshness if given else WEIGHTS.freshness_of_text)[state]
