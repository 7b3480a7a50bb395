"""SearchStore: each verb of the port, by the module that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from plait.domain.values import Candidate, Filter, Item, ItemId
from plait.ports import Around, ItemState, Place, Spot, View
from vector.anchors.freshness import ItemStates
from vector.connection.pool import Database, Scoped
from vector.index.vocabulary import Words
from vector.search.alike import Alike
from vector.search.located import Located, chunks_of
from vector.search.nearest import Nearest
from vector.search.store import Lexical
from vector.search.threads import Threads
from vector.search.versions import Versions
from vector.search.views import Views


class Search:
    def __init__(self, db: Database, app: Scoped, lexical: Lexical) -> None:
        self._app = app
        self._versions = Versions(db)
        self._views = Views(app, self._versions)
        self._lexical = lexical
        self._nearest = Nearest(app)
        self._alike = Alike(app, lexical)
        self._located = Located(app)
        self._threads = Threads(app)
        self._item_states = ItemStates(app)
        self._words = Words(app)

    async def close(self) -> None:
        await self._words.close()
        await self._versions.close()

    async def view(self, where: Filter) -> View:
        return await self._views.view(where)

    async def version(self, repos: Sequence[str]) -> str:
        return await self._versions.of(repos)

    async def lexical(
        self,
        view: View,
        terms: Sequence[str],
        where: Filter,
        k: int,
        weights: Mapping[str, float] | None = None,
    ) -> list[Candidate]:
        return await self._lexical.lexical(view, terms, where, k, weights)

    async def counts(
        self, view: View, terms: Sequence[str], where: Filter
    ) -> tuple[int, dict[str, int]]:
        return await self._lexical.counts(view, terms, where)

    async def nearest(
        self, view: View, vector: npt.NDArray[np.float32], where: Filter, k: int
    ) -> list[Candidate]:
        return await self._nearest.nearest(view, vector, where, k)

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate] | None:
        return await self._alike.alike(view, counts, where, k)

    async def cosines(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return await self._nearest.cosines(view, vector, ids)

    async def missed(
        self, view: View, vector: npt.NDArray[np.float32], ids: Sequence[ItemId]
    ) -> dict[ItemId, float]:
        return await self._nearest.missed(view, vector, ids)

    async def phrase(self, view: View, phrase: str, where: Filter, k: int) -> list[Candidate]:
        return await self._lexical.phrase(view, phrase, where, k)

    async def identifiers(self, view: View, name: str, where: Filter, k: int) -> list[Candidate]:
        return await self._lexical.identifiers(view, name, where, k)

    async def places(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Place]:
        return await self._lexical.places(view, ids)

    async def fetch(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Item]:
        return await self._lexical.fetch(view, ids)

    async def located(
        self, view: View, spots: Sequence[Spot], where: Filter, k: int
    ) -> list[list[ItemId]]:
        return await self._located.located(view, spots, where, k)

    async def chunks_of(
        self, view: View, symbols: Sequence[tuple[str, str, str]], where: Filter
    ) -> list[ItemId | None]:
        return await chunks_of(self._app, view, symbols, where)

    async def around(self, view: View, ids: Sequence[ItemId], where: Filter, reach: int) -> Around:
        return await self._threads.around(view, ids, where, reach)

    async def item_states(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, ItemState]:
        return await self._item_states.item_states(view, ids)

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        return await self._words.vocabulary(view, words, k)
