"""A `SearchStore` over one made-up history: what `MemoryStore` does, with what agents' items have."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from benchmarks.localisation_corpus import Piece
from benchmarks.memory_histories import Entry, History
from benchmarks.memory_store import MemoryStore
from plait.domain.values import Collection, Item, ItemId, embedded_text
from plait.ports import Place, Standing, Vectors, View


def pieces(history: History) -> list[Piece]:
    return [_piece(entry) for entry in history.entries]


def _piece(entry: Entry) -> Piece:
    text = embedded_text(entry.path, entry.symbol, entry.text)
    hashed = hashlib.blake2b(text.encode(), digest_size=16).digest()
    function = f"{entry.path}::{entry.symbol}" if entry.symbol else ""
    return Piece(
        entry.path, entry.symbol, function, entry.kind, "", 0, 0, entry.text, hashed, False
    )  # fmt: skip


class HistoryStore(MemoryStore):
    """Places, items and standings as the history has them."""

    def __init__(self, history: History, vectors: Vectors, model: str) -> None:
        super().__init__(history.name, pieces(history), vectors, model, Collection.MEMORIES)
        self._entries = history.entries

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        return {id_: self._place(self._entries[id_.int]) for id_ in ids}

    def _place(self, e: Entry) -> Place:
        return Place(
            self._repo, e.collection, e.path, e.symbol, e.kind, False, 0, 0, e.importance, e.at,
            "episodic", e.source, "agent", "", e.tags, None,
        )  # fmt: skip

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        found = {}
        for id_ in ids:
            e = self._entries[id_.int]
            found[id_] = Item(
                id_, e.collection, self._repo, e.kind, e.path, e.symbol, "", 0, 0, e.text, e.at
            )
        return found

    async def standing(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Standing]:
        return {id_: _standing(self._entries[id_.int]) for id_ in ids}


def _standing(entry: Entry) -> Standing:
    anchored = bool(entry.path)
    return Standing(
        anchored,
        known=anchored,
        there=anchored and not entry.gone,
        changed=entry.stale,
        external=entry.source == "system",
    )
