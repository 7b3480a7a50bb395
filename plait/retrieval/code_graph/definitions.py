"""Definitions of names that an agent is about to search for: exact matches only."""

from __future__ import annotations

from collections.abc import Sequence

from plait.domain.remarks import Remark, clean, key_of
from plait.domain.values import Collection, Filter
from plait.ports import Place, Spot, View
from plait.retrieval.search_context import Deps

MAX_DEFINITIONS = 6  # of one name; a name with more is ambiguous and left out
PARTS = 24  # chunks of one name: a long function has several
HEADING = "Defined here:"
# Chunks that are no definition: text, and module-level lines.
_NO_DEFINITION = frozenset({"", "module", "doc", "text", "config", "data", "section", "heading"})


async def defined(deps: Deps, view: View, repo: str, names: Sequence[str]) -> list[Remark]:
    """A line for each definition whose name, or the dotted end of its qualified name, is one of `names`, in order."""
    unique = list(dict.fromkeys(names))
    where = Filter(repos=(repo,), tenant=view.tenant, collections=(Collection.FILES,))
    spots = [Spot(symbol=name, repo=repo) for name in unique]
    found = await deps.store.located(view, spots, where, PARTS)
    places = await deps.store.places(view, list(dict.fromkeys(id_ for ids in found for id_ in ids)))
    remarks: list[Remark] = []
    for name, ids in zip(unique, found, strict=True):
        of_name = _definitions(name, [places[id_] for id_ in ids if id_ in places])
        if len(of_name) <= MAX_DEFINITIONS:
            remarks += [_remark(repo, place, lines) for place, lines in of_name]
    return remarks


def _definitions(name: str, places: Sequence[Place]) -> list[tuple[Place, tuple[int, int]]]:
    """One location a symbol, with its first and last line; tests last."""
    spans: dict[tuple[str, str], tuple[Place, tuple[int, int]]] = {}
    for place in places:
        symbol = place.symbol.partition("#")[0]
        ends = symbol.replace("::", ".").replace("/", ".")
        if place.kind in _NO_DEFINITION or not f".{ends}".endswith(f".{name}"):
            continue
        key = (place.path, symbol)
        first, (low, high) = spans.get(key, (place, (place.start_line, place.end_line)))
        spans[key] = (first, (min(low, place.start_line), max(high, place.end_line)))
    return sorted(spans.values(), key=lambda at: (at[0].is_test, at[0].path, at[1]))


def _remark(repo: str, place: Place, lines: tuple[int, int]) -> Remark:
    symbol = place.symbol.partition("#")[0]
    text = clean(f"{place.path}:{lines[0]}-{lines[1]} {symbol} ({place.kind})")
    return Remark(key_of(repo, place.path, symbol), HEADING, text)
