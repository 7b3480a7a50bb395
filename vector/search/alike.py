"""The arm of the static table: cosines over the vectors of whole segments, in numpy, without a statement once they
are in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from plait.domain.values import Candidate, Collection, Filter
from plait.models.embedding import static
from plait.models.embedding.static import Encoded, Floats
from plait.ports import View
from vector.connection.pool import Scoped
from vector.index.bm25 import SegmentRef, Space
from vector.index.segment_vectors import decoded
from vector.search.store import Lexical, segments_of

# Memory of the cache: 260 bytes a document, so 260 MB. A view of more documents is not searched by this arm: it would
# read all of them from the disk for each query.
CACHED_DOCS = 1_000_000
# Cosines at a time, as floats: 4 MB. A million take 40 ms, so of many they are computed beside the event loop.
BLOCK = 4_096
AT_ONCE = 50_000

VECTORS = """
SELECT segment_id, body FROM segment_vector WHERE segment_id = ANY(%(ids)s) AND model = %(model)s
"""


class Alike:
    """`SearchStore.alike`. Segments never change, so what is in memory is never stale."""

    def __init__(self, app: Scoped, lexical: Lexical, docs: int = CACHED_DOCS) -> None:
        self._app = app
        self._lexical = lexical
        self._limit = docs
        self._count = 0
        self._held: OrderedDict[int, Encoded] = OrderedDict()

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate] | None:
        where = replace(where, collections=(Collection.FILES,))
        refs = segments_of(view, where)
        if not refs:
            return []
        if sum(ref.docs for ref in refs) > self._limit:
            return None
        query = static.shipped().query(counts)
        held = await self._vectors(view, refs) if query is not None else {}
        if query is None or not held:
            return []
        space = await self._lexical.space(view, refs)
        if len(space.norm) > AT_ONCE:
            scores = await asyncio.to_thread(_scores, refs, held, space, query)
        else:
            scores = _scores(refs, held, space, query)
        return await self._lexical.filtered(view, where, space, scores, k)

    async def _vectors(self, view: View, refs: Sequence[SegmentRef]) -> dict[int, Encoded]:
        """By segment. Segments that have none, of this table, are left out."""
        docs = {ref.id: ref.docs for ref in refs}
        if missing := [id_ for id_ in docs if id_ not in self._held]:
            params = {"ids": missing, "model": static.NAME}
            for id_, body in await self._app.rows(VECTORS, params, tenant=view.tenant):
                self._held[id_] = decoded(bytes(body), docs[id_])
                self._count += docs[id_]
        found = {}
        for id_ in docs:
            if (segment := self._held.get(id_)) is not None:
                self._held.move_to_end(id_)
                found[id_] = segment
        while self._count > self._limit and len(self._held) > len(found):
            self._count -= len(self._held.popitem(last=False)[1].scales)
        return found


def _scores(
    refs: Sequence[SegmentRef], held: Mapping[int, Encoded], space: Space, query: Floats
) -> Floats:
    scores = np.zeros(len(space.norm), np.float32)
    for ref in refs:
        if (vectors := held.get(ref.id)) is not None:
            part = slice(space.offsets[ref.id], space.offsets[ref.id] + ref.docs)
            scores[part] = cosines(vectors, query)
    if space.alive is not None:
        scores[~space.alive] = 0.0
    return scores


def cosines(vectors: Encoded, query: Floats) -> Floats:
    """The cosine of each document with `query`, 0 for what is not alike."""
    out = np.zeros(len(vectors.scales), np.float32)
    for first in range(0, len(out), BLOCK):
        part = slice(first, first + BLOCK)
        out[part] = (vectors.rows[part].astype(np.float32) @ query) * vectors.scales[part]
    return np.maximum(out, 0.0, out=out)
