"""BM25 over segments, scored in numpy (Robertson & Zaragoza 2009, the Lucene form of idf).

    score(d, q) = Σ idf(t) · tf · (k1 + 1) / (tf + k1 · (1 - b + b · |d| / avgdl))
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))

N, df and avgdl are those of the living documents of every segment in the view together, so a score
does not depend on how the documents are spread over segments, and dead documents have no effect.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vector.index.segments import Bools, Ints, split_body

Floats = npt.NDArray[np.float32]

# The usual values; chunks of code differ little in length, so `b` matters less than for articles.
K1 = 1.2
B = 0.75
# Texts of agents and people are short, and the shortest are the least informative: "Hanna says hi" is not the best
# answer to a question about Hanna. See docs/experiments/conversations.md for what it gave.
B_TEXT = 0.3
# A term in more than about a third of the documents carries little information and costs most. With 1.5 (a fifth)
# function MRR was 2 points lower for BM25 alone, below 1.0 nothing changed; see docs/experiments/ablations.md.
MIN_IDF = 1.0
# Documents of which only the best score is looked at when the best of all are sought.
BLOCK = 64
# Memory of the cache: 33 bytes a document, so 66 MB for two million.
CACHED_DOCS = 2_000_000


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment as one revision sees it. `dead_rev`: the newest revision ≤ that one that buried
    documents in it, 0 for none; `(id, dead_rev)` names the living documents for good."""

    id: int
    repo_id: int
    collection: str
    docs: int
    dead_rev: int

    @property
    def key(self) -> tuple[int, int]:
        return (self.id, self.dead_rev)


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    ids: bytes
    lengths: Ints
    alive: Bools | None  # None: all


@dataclass(frozen=True, slots=True)
class Space:
    """The documents of a list of segments, numbered through. `norm` is k1·(1 - b + b·|d|/avgdl),
    with a `b` of its own for what is not code."""

    offsets: Mapping[int, int]  # by segment id
    norm: Floats
    ids: npt.NDArray[np.void]  # 16 bytes a document
    alive: Bools | None
    living: int
    lengths: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    b: Floats = field(default_factory=lambda: np.zeros(0, np.float32))

    @property
    def dead(self) -> int:
        return len(self.norm) - self.living

    def segment(self, id_: int, docs: int) -> LoadedSegment:
        """One of its segments, which has so many documents."""
        part = slice(self.offsets[id_], self.offsets[id_] + docs)
        alive = None if self.alive is None else self.alive[part]
        return LoadedSegment(self.ids[part].tobytes(), self.lengths[part], alive)


def space_of(refs: Sequence[SegmentRef], loaded: Sequence[LoadedSegment]) -> Space:
    """Join segments into one numbering, in the order given."""
    offsets, base = {}, 0
    for ref in refs:
        offsets[ref.id] = base
        base += ref.docs
    lengths = np.concatenate([seg.lengths for seg in loaded]) if loaded else np.zeros(0, np.int32)
    alive = None
    if any(seg.alive is not None for seg in loaded):
        alive = np.concatenate(
            [np.ones(len(s.lengths), np.bool_) if s.alive is None else s.alive for s in loaded]
        )
    bs = [np.full(ref.docs, B if ref.collection == "files" else B_TEXT, np.float32) for ref in refs]
    b = np.concatenate(bs) if bs else np.zeros(0, np.float32)
    ids = np.frombuffer(b"".join(seg.ids for seg in loaded), "V16")
    return _space(offsets, ids, alive, lengths, b)


def _space(
    offsets: Mapping[int, int],
    ids: npt.NDArray[np.void],
    alive: Bools | None,
    lengths: Ints,
    b: Floats,
) -> Space:
    living = len(lengths) if alive is None else int(alive.sum())
    tokens = int(lengths.sum() if alive is None else lengths[alive].sum())
    average = tokens / living if living and tokens else 1.0
    norm = (K1 * (1 - b + b * lengths.astype(np.float64) / average)).astype(np.float32)
    return Space(offsets, norm, ids, alive, living, lengths, b)


def without(space: Space, gone: Bools) -> Space:
    """`space` as if the documents that `gone` marks were dead."""
    alive = ~gone if space.alive is None else space.alive & ~gone
    return _space(space.offsets, space.ids, alive, space.lengths, space.b)


def is_not_code(space: Space, docs: npt.NDArray[np.int64]) -> Bools:
    """Which of `docs` are not code."""
    mask: Bools = space.b[docs] != np.float32(B)
    return mask


def idf(living: int, df: int) -> float:
    return math.log(1.0 + (living - df + 0.5) / (df + 0.5))


def common_from(living: int) -> int:
    """The smallest df whose idf is below `MIN_IDF`."""
    # ln(1 + (N - df + .5) / (df + .5)) < m  ⇔  df + .5 > (N + 1) / e^m
    return math.floor((living + 1) / math.exp(MIN_IDF) - 0.5) + 1


@dataclass(frozen=True, slots=True)
class TermPostings:
    """The living documents of one term, in the space's numbering."""

    docs: npt.NDArray[np.int64]
    tfs: npt.NDArray[np.uint8]


def gather(space: Space, bodies: Iterable[tuple[int, bytes]]) -> TermPostings:
    """One term's postings over all segments. `bodies` are `(segment id, body)`."""
    docs, tfs = [], []
    for segment_id, body in bodies:
        local, frequency = split_body(body)
        numbered = local.astype(np.int64) + space.offsets[segment_id]
        if space.alive is not None:
            keep = space.alive[numbered]
            numbered, frequency = numbered[keep], frequency[keep]
        docs.append(numbered)
        tfs.append(frequency)
    if len(docs) == 1:
        return TermPostings(docs[0], tfs[0])
    return TermPostings(np.concatenate(docs), np.concatenate(tfs))


def has_rare(space: Space, postings: Mapping[str, TermPostings]) -> bool:
    """Whether a term that occurs has an idf of `MIN_IDF` or more."""
    return any(len(p.docs) and idf(space.living, len(p.docs)) >= MIN_IDF for p in postings.values())


def score(
    space: Space,
    postings: Mapping[str, TermPostings],
    min_idf: float = MIN_IDF,
    weights: Mapping[str, float] | None = None,
) -> Floats:
    """A score a document, 0 where no term occurs. Terms with an idf below `min_idf` count only when
    no other term is there. Terms are added in sorted order: float sums depend on it. `weights` by term
    multiplies its idf; a term that is not in it weighs 1, and what weighs less never silences it."""
    present = {term: p for term, p in postings.items() if len(p.docs)}
    rare = {t: p for t, p in present.items() if idf(space.living, len(p.docs)) >= min_idf}
    if weights and all(weights.get(term, 1.0) < 1.0 for term in rare):
        rare = {}
    out = np.zeros(len(space.norm), np.float32)
    for term, p in sorted((rare or present).items()):
        tf = p.tfs.astype(np.float32)
        share = weights.get(term, 1.0) if weights else 1.0
        weight = np.float32(idf(space.living, len(p.docs)) * (K1 + 1) * share)
        below = space.norm.take(p.docs)
        below += tf
        tf *= weight
        tf /= below
        tf += out.take(p.docs)
        out[p.docs] = tf
    return out


def only(space: Space, scores: Floats, ids: bytes) -> Floats:
    """`scores` of the documents whose id is in `ids` (16 bytes each), 0 for the others."""
    found = np.flatnonzero(scores)
    if not len(found) or not ids:
        return np.zeros_like(scores)
    given = np.sort(np.frombuffer(ids, "S16"))
    found_ids = np.frombuffer(space.ids[found].tobytes(), "S16")
    at = np.minimum(np.searchsorted(given, found_ids), len(given) - 1)
    out = np.zeros_like(scores)
    matching = found[given[at] == found_ids]
    out[matching] = scores[matching]
    return out


def best(space: Space, scores: Floats, k: int) -> tuple[npt.NDArray[np.int64], bool]:
    """`(documents, complete)`: at least the `k` best and all that tie with the last of them, best
    first, ties by id. `complete`: nothing with a score above 0 is left out."""
    threshold = _kth(scores, k)
    found = np.flatnonzero(scores if threshold <= 0 else scores >= threshold)
    # Of booleans, 16 times as fast as of floats.
    complete = bool(threshold <= 0 or np.count_nonzero(scores > 0) <= k)
    ids = space.ids[found].tobytes()
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0], -scores[found]))
    return found[order], complete


def _kth(scores: Floats, k: int) -> np.float32:
    """The `k`-th largest of `scores`, 0 where there are no more than `k`.

    It is at least the `k`-th largest of the blocks' maxima, which leaves few to be ordered. Most scores
    are 0, and so many ties make `np.partition` sort what it should only divide: 1 to 5 ms of 100,000
    documents, here 0.03."""
    if not len(scores) > k > 0:
        return np.float32(0)
    bound, blocks = np.float32(0), len(scores) // BLOCK
    if blocks > k:
        # Document i of every block side by side, which the processor compares many at a time.
        maxima = scores[: blocks * BLOCK].reshape(BLOCK, blocks).max(axis=0)
        bound = np.partition(maxima, blocks - k)[blocks - k]
    left = scores[scores >= bound] if bound > 0 else scores[scores > 0]
    if len(left) < k:
        return np.float32(0)
    return np.float32(np.partition(left, len(left) - k)[len(left) - k])


class SpaceCache:
    """Spaces and segments of this process, the least recently used dropped first.

    Everything in it is immutable and named by content, so nothing is ever stale.
    """

    def __init__(self, docs: int = CACHED_DOCS) -> None:
        self._limit = docs
        self._held = 0
        self._spaces: OrderedDict[tuple[tuple[int, int], ...], Space] = OrderedDict()

    def get(self, refs: Sequence[SegmentRef]) -> Space | None:
        key = tuple(ref.key for ref in refs)
        space = self._spaces.get(key)
        if space is not None:
            self._spaces.move_to_end(key)
        return space

    def segments(self, refs: Sequence[SegmentRef]) -> dict[tuple[int, int], LoadedSegment]:
        """By key those of `refs` that the newest space with any of them holds: a write adds one to many."""
        wanted = {ref.key: ref.docs for ref in refs}
        for keys, space in reversed(self._spaces.items()):
            if any(key in wanted for key in keys):
                return {key: space.segment(key[0], wanted[key]) for key in keys if key in wanted}
        return {}

    def put(self, refs: Sequence[SegmentRef], space: Space) -> None:
        key = tuple(ref.key for ref in refs)
        if key in self._spaces:
            return
        self._spaces[key] = space
        self._held += len(space.norm)
        while self._held > self._limit and len(self._spaces) > 1:
            _, dropped = self._spaces.popitem(last=False)
            self._held -= len(dropped.norm)

    def drop(self, segments: Iterable[int]) -> None:
        """Drop the spaces that contain one of `segments`, which no longer exist."""
        gone = set(segments)
        for key in [k for k in self._spaces if any(id_ in gone for id_, _ in k)]:
            self._held -= len(self._spaces.pop(key).norm)
