"""Memory queries and searches over a truth store, as a server's, but for the model: without a vector words alone
find."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plait.domain.errors import EmbeddingUnavailable
from plait.domain.memory import MemoryMatch, MemoryQueryOptions
from plait.ports import EmbeddingProvider
from plait.retrieval.memory_query import MemoryQueryService
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.search import SearchAnswer, SearchService
from plait.retrieval.search_context import Deps
from plait.settings import SearchSettings
from vector.store import Store


async def query(
    store: Store,
    text: str,
    vector: npt.NDArray[np.float32] | None,
    options: MemoryQueryOptions,
) -> tuple[MemoryMatch, ...]:
    service = MemoryQueryService(Deps(store.search, _no_model, SearchSettings()), store.memories)
    return (await service.query(text, vector, options)).matches


async def search(store: Store, asked: SearchQuery) -> SearchAnswer:
    return await SearchService(store.search, _no_model, SearchSettings()).search(asked)


async def _no_model() -> EmbeddingProvider:
    raise EmbeddingUnavailable("no model here")
