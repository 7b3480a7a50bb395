"""The freshness of memories: whether the code that they are anchored in has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.domain.recall import AnchorState, Freshness, NamedAnchor
from plait.domain.values import ItemId
from plait.ports import ItemState, Place
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.memories
_REASONS: Mapping[Freshness, str] = {
    Freshness.DRIFTED: "its code has changed since",
    Freshness.ORPHANED: "its code is gone",
}
MAX_EXPLAINED = 3  # anchors that a reason names


def freshness(place: Place, state: ItemState | None) -> Freshness:
    """FRESH for code, which is of the revision that answers; for agents' items by their anchor and by the code that
    their text names."""
    if place.collection == "files":
        return Freshness.FRESH
    if state is None:
        return Freshness.UNVERIFIABLE
    given, named = _given(state), _named(state.named)
    if given in _REASONS or named is Freshness.UNVERIFIABLE:
        return given
    if given is Freshness.FRESH and named is Freshness.ORPHANED:
        return Freshness.DRIFTED
    return named


def _given(state: ItemState) -> Freshness:
    if not state.anchored:
        return Freshness.UNVERIFIABLE
    if not state.exists:
        # An anchor that never was in the index, such as a file outside it, is not gone.
        return Freshness.ORPHANED if state.has_baseline else Freshness.UNVERIFIABLE
    if not state.has_baseline:
        return Freshness.UNVERIFIABLE
    return Freshness.DRIFTED if state.changed else Freshness.FRESH


def _named(named: Sequence[NamedAnchor]) -> Freshness:
    """ORPHANED if all anchors are gone, DRIFTED if some are gone or changed."""
    if not named:
        return Freshness.UNVERIFIABLE
    gone = sum(one.state is AnchorState.GONE for one in named)
    if gone == len(named):
        return Freshness.ORPHANED
    changed = any(one.state is AnchorState.CHANGED for one in named)
    return Freshness.DRIFTED if gone or changed else Freshness.FRESH


def reason(place: Place, state: ItemState | None) -> str:
    """What changed, in words; "" if nothing did."""
    if state is None or place.collection == "files":
        return ""
    given = _REASONS.get(_given(state), "")
    explanations = [text for one in state.named if (text := _explanation(one))]
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
    """The symbol without its module prefix: `Session.get` for `src.app.Session.get` in src/app.py."""
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
    places: Mapping[ItemId, Place], states: Mapping[ItemId, ItemState]
) -> dict[ItemId, float]:
    """Factors of scores by item, without those of 1.0."""
    found = {id_: _factor(place, states.get(id_)) for id_, place in places.items()}
    return {id_: factor for id_, factor in found.items() if factor != 1.0}


def _factor(place: Place, state: ItemState | None) -> float:
    found = freshness(place, state)
    given = state is not None and _given(state) in _REASONS
    return (WEIGHTS.freshness if given else WEIGHTS.freshness_of_text)[found]
