"""The BM25 segment of a run: every batch's words merged into one posting list a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait.domain.values import ItemId
from plait.ports import Segment

Int32 = npt.NDArray[np.int32]

# A posting packed into one int64, so that one sort orders all: term, document, frequency.
_TF_BITS = 8
_DOC_BITS = 28
_MAX_TERMS = 1 << (63 - _DOC_BITS - _TF_BITS)
_MAX_DOCS = 1 << _DOC_BITS
# Of a segment: some 150 MB while it is built. Django has 2.7 million, Kubernetes 5.
MOST_POSTINGS = 6_000_000


@dataclass(frozen=True, slots=True)
class PartialIndex:
    """The words of one batch's chunks. Document `i` has `distinct[i]` postings, one after the other.

    `terms` index `vocabulary`, which is shared by all batches of a pool and only ever grows.
    """

    lengths: Int32  # (documents,) terms a chunk, repeats counted
    distinct: Int32  # (documents,)
    terms: Int32  # (postings,)
    tfs: npt.NDArray[np.uint8]  # (postings,) capped at 255
    vocabulary: Sequence[str]


class SegmentBuilder:
    """Gathers batches; `build` gives the segment. Memory: 5 bytes a posting until then, 25 in `build`."""

    def __init__(self) -> None:
        self._ids: list[ItemId] = []
        self._parts: list[PartialIndex] = []
        self._postings = 0

    @property
    def is_full(self) -> bool:
        """True when a run should write this segment and begin the next, so that memory has a bound."""
        return self._postings >= MOST_POSTINGS

    def add(self, ids: Sequence[ItemId], part: PartialIndex | None) -> None:
        """Add the words of the chunks `ids`; all parts of a segment come from one pool.

        Raises: ValueError, when the words are another pool's.
        """
        if part is None or not ids:
            return
        if self._parts and self._parts[0].vocabulary is not part.vocabulary:
            raise ValueError("batches of two pools can't share a segment")
        self._ids += ids
        self._parts.append(part)
        self._postings += len(part.terms)

    def build(self) -> Segment | None:
        """The segment over all chunks added, its terms ascending; None when there are none."""
        if not self._ids:
            return None
        lengths = np.concatenate([part.lengths for part in self._parts])
        keys = self._sorted_keys()
        docs = ((keys >> _TF_BITS) & (_MAX_DOCS - 1)).astype("<i4").tobytes()
        tfs = keys.astype(np.uint8).tobytes()  # the lowest byte
        keys >>= _DOC_BITS + _TF_BITS
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        vocabulary = self._parts[0].vocabulary
        found = [vocabulary[i] for i in keys[starts].tolist()]
        ends = [*starts[1:].tolist(), len(keys)]
        slices = sorted(zip(found, starts.tolist(), ends, strict=True))
        return Segment(
            ids=self._ids,
            lengths=lengths,
            terms=[term for term, _, _ in slices],
            docs=[docs[4 * a : 4 * b] for _, a, b in slices],
            tfs=[tfs[a:b] for _, a, b in slices],
        )

    def _sorted_keys(self) -> npt.NDArray[np.int64]:
        """All postings packed, ascending: by term, then by document."""
        if len(self._ids) > _MAX_DOCS or len(self._parts[0].vocabulary) > _MAX_TERMS:
            raise ValueError("too many chunks or terms for one segment")
        keys = np.empty(self._postings, dtype=np.int64)
        first = begin = 0
        for part in self._parts:
            count, end = len(part.lengths), begin + len(part.terms)
            key = keys[begin:end]
            key[:] = part.terms
            key <<= _DOC_BITS
            key |= np.repeat(np.arange(first, first + count, dtype=np.int64), part.distinct)
            key <<= _TF_BITS
            key |= part.tfs
            first, begin = first + count, end
        keys.sort()
        return keys
