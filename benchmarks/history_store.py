"""A `SearchStore` over one made-up history: what `MemoryStore` does, with what agents' items have."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from benchmarks.localisation_corpus import Piece
from benchmarks.memory_histories import Entry, History
from benchmarks.memory_store import MemoryStore
from plait.domain.values import Collection, Filter, Item, ItemId, embedded_text
from plait.ports import Around, ItemState, Place, Vectors, View
from plait.text.token_count import count
from plait.text.turn_kinds import announces_next_step, is_question


def pieces(history: History) -> list[Piece]:
    return [_piece(entry) for entry in history.entries]


def _piece(entry: Entry) -> Piece:
    text = embedded_text(entry.path, entry.symbol, entry.text, entry.context)
    content = text.partition("\n")[2]  # the first line is its path and symbol
    hashed = hashlib.blake2b(text.encode(), digest_size=16).digest()
    function = f"{entry.path}::{entry.symbol}" if entry.symbol else ""
    return Piece(
        entry.path, entry.symbol, function, entry.kind, "", 0, 0, content, hashed, False
    )  # fmt: skip


class HistoryStore(MemoryStore):
    """Places, items and states_by_id as the history has them."""

    def __init__(self, history: History, vectors: Vectors, model: str) -> None:
        super().__init__(history.name, pieces(history), vectors, model, Collection.MEMORIES)
        self._entries = history.entries
        self._sessions: dict[str, list[int]] = {}
        for n, entry in enumerate(history.entries):
            if entry.session and entry.collection is Collection.MEMORIES:
                self._sessions.setdefault(entry.session, []).append(n)

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        return {id_: self._place(self._entries[id_.int]) for id_ in ids}

    def _place(self, e: Entry) -> Place:
        return Place(
            self._repo, e.collection, e.path, e.symbol, e.kind, False, 0, 0, e.importance, e.at,
            e.type or ("episodic" if e.kind == "turn" else "procedural"), e.source, "agent", e.session, e.tags,
            None, count(e.text), is_question(e.text), _announces(e),
        )  # fmt: skip

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        return {id_: self._beside(id_.int, reach) for id_ in ids if self._entries[id_.int].session}

    def _beside(self, at: int, reach: int) -> dict[ItemId, int]:
        """Steps are counted over what was said in the session alone, as PostgreSQL's rows are."""
        said = self._sessions.get(self._entries[at].session, [])
        mine = bisect_left(said, at)
        if mine == len(said) or said[mine] != at:
            return {}
        return {
            self._ids[said[n]]: n - mine
            for n in range(max(0, mine - reach), min(len(said), mine + reach + 1))
            if n != mine
        }

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        found = {}
        for id_ in ids:
            e = self._entries[id_.int]
            found[id_] = Item(
                id_, e.collection, self._repo, e.kind, e.path, e.symbol, "", 0, 0, e.text, e.at
            )
        return found

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        return {id_: _item_state(self._entries[id_.int]) for id_ in ids}


def _announces(e: Entry) -> bool:
    """As a memory's writer decides it."""
    mine = e.source == "agent" and e.collection is Collection.MEMORIES
    return mine and announces_next_step(e.text)


def _item_state(entry: Entry) -> ItemState:
    anchored = bool(entry.path)
    return ItemState(
        anchored,
        has_baseline=anchored,
        exists=anchored and not entry.gone,
        changed=entry.stale,
        external=entry.source == "system",
    )
