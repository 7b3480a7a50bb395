"""The arm of the static table: cosines over the vectors of whole segments, in numpy, without a statement once they
are in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plait.domain.values import Candidate, Collection, Filter
from plait.models.embedding import static
from plait.models.embedding.static import Encoded, Floats
from plait.ports import View
from vector.connection.pool import Scoped
from vector.index.bm25 import SegmentRef
from vector.index.segment_vectors import decoded
from vector.index.segments import Bools
from vector.search.filters import condition
from vector.search.store import Lexical, segments_of

Signs = npt.NDArray[np.uint64]

# Up to so many documents all are compared; of more, those whose signs agree most with the query's. A cosine costs
# five times what a comparison of signs does.
EXACT_DOCS = 20_000
LIKELIEST = 2_000
# Memory of the cache: 292 bytes a document, so 290 MB. A view of more documents is not searched by this arm:
# it would read all of them from the disk for each query.
CACHED_DOCS = 1_000_000
# Cosines at a time, as floats: 4 MB.
BLOCK = 4_096

VECTORS = """
SELECT segment_id, body FROM segment_vector WHERE segment_id = ANY(%(ids)s) AND model = %(model)s
"""


@dataclass(frozen=True, slots=True)
class Held:
    """A segment's vectors, and the signs of their components, 64 a number."""

    vectors: Encoded
    signs: Signs  # (documents, dim / 64)

    def __len__(self) -> int:
        return len(self.signs)


class Alike:
    """`SearchStore.alike`. Segments never change, so what is in memory is never stale."""

    def __init__(self, app: Scoped, lexical: Lexical, docs: int = CACHED_DOCS) -> None:
        self._app = app
        self._lexical = lexical
        self._limit = docs
        self._count = 0
        self._held: OrderedDict[int, Held] = OrderedDict()

    async def alike(
        self, view: View, counts: Mapping[str, int], where: Filter, k: int
    ) -> list[Candidate]:
        where = replace(where, collections=(Collection.FILES,))
        refs = segments_of(view, where)
        if not refs or sum(ref.docs for ref in refs) > self._limit:
            return []
        query = static.shipped().query(counts)
        held = await self._vectors(view, refs) if query is not None else {}
        if query is None or not held:
            return []
        space = await self._lexical.space(view, refs)
        exact = len(space.norm) <= EXACT_DOCS or condition(view, where).restrictive
        scores = np.zeros(len(space.norm), np.float32)
        for ref in refs:
            if (segment := held.get(ref.id)) is not None:
                part = slice(space.offsets[ref.id], space.offsets[ref.id] + ref.docs)
                alive = None if space.alive is None else space.alive[part]
                scores[part] = cosines(segment, query, alive, 0 if exact else LIKELIEST)
        return await self._lexical.filtered(view, where, space, scores, k)

    async def _vectors(self, view: View, refs: Sequence[SegmentRef]) -> dict[int, Held]:
        """By segment. Segments that have none, of this table, are left out."""
        docs = {ref.id: ref.docs for ref in refs}
        if missing := [id_ for id_ in docs if id_ not in self._held]:
            params = {"ids": missing, "model": static.NAME}
            for id_, body in await self._app.rows(VECTORS, params, tenant=view.tenant):
                vectors = decoded(bytes(body), docs[id_])
                self._held[id_] = Held(vectors, signs_of(vectors.rows))
                self._count += docs[id_]
        found = {}
        for id_ in docs:
            if (segment := self._held.get(id_)) is not None:
                self._held.move_to_end(id_)
                found[id_] = segment
        while self._count > self._limit and len(self._held) > len(found):
            self._count -= len(self._held.popitem(last=False)[1])
        return found


def signs_of(rows: npt.NDArray[np.int8] | Floats) -> Signs:
    """Which components are positive: one bit each; their number is a multiple of 64."""
    bits = np.packbits(rows > 0, axis=1)
    return np.ascontiguousarray(bits).view(np.uint64)


def cosines(segment: Held, query: Floats, alive: Bools | None, likeliest: int) -> Floats:
    """The cosine of each document with `query`, 0 for the dead and for what is not alike. `likeliest`: of so many
    documents alone, those whose signs agree most with the query's; 0: of all."""
    out = np.zeros(len(segment), np.float32)
    if not likeliest or len(segment) <= likeliest:
        for first in range(0, len(segment), BLOCK):
            part = slice(first, first + BLOCK)
            rows, scales = segment.vectors.rows[part], segment.vectors.scales[part]
            out[part] = (rows.astype(np.float32) @ query) * scales
        if alive is not None:
            out[~alive] = 0.0
        return np.maximum(out, 0.0, out=out)
    differing = np.bitwise_count(segment.signs ^ signs_of(query[None])).sum(1, dtype=np.uint16)
    if alive is not None:
        differing[~alive] = np.iinfo(np.uint16).max
    best = np.argpartition(differing, likeliest)[:likeliest]
    if alive is not None:
        best = best[alive[best]]
    rows = segment.vectors.rows[best].astype(np.float32)
    out[best] = np.maximum((rows @ query) * segment.vectors.scales[best], 0.0)
    return out
