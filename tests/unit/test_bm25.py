"""BM25 against its definition, and the laws the store counts on."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import ItemId
from vector.index import bm25, segments
from vector.index.bm25 import LoadedSegment, SegmentRef, Space, TermPostings

WORDS = ("alpha", "beta", "gamma", "delta", "rare")
documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=8), min_size=1, max_size=12)


def item(n: int) -> ItemId:
    return ItemId(UUID(int=n + 1))


def ranked(
    docs: Sequence[Sequence[str]],
    cuts: Sequence[int],
    dead: set[int],
    terms: Sequence[str],
    weights: Mapping[str, float] | None = None,
) -> dict[int, float]:
    """Score by document number, with the documents spread over segments that end at `cuts`."""
    refs, loaded, bodies = [], [], {term: [] for term in terms}  # type: ignore[var-annotated]
    bounds = sorted({0, len(docs), *(c % (len(docs) + 1) for c in cuts)})
    for number, (start, end) in enumerate(itertools.pairwise(bounds), start=1):
        segment = segments.build([item(i) for i in range(start, end)], docs[start:end])
        alive = np.array([i not in dead for i in range(start, end)])
        refs.append(SegmentRef(number, 1, "files", end - start, 0))
        loaded.append(LoadedSegment(b"".join(i.bytes for i in segment.ids), segment.lengths, alive))
        for term, d, f in zip(segment.terms, segment.docs, segment.tfs, strict=True):
            if term in bodies:
                bodies[term].append((number, d + f))
    space = bm25.space_of(refs, loaded)
    postings = {t: bm25.gather(space, found) for t, found in bodies.items() if found}
    scores = bm25.score(space, postings, weights=weights)
    order, complete = bm25.best(space, scores, len(docs))
    assert complete
    return {int(space.ids[d].tobytes()[-1]) - 1: float(scores[d]) for d in order}


def by_definition(docs: Sequence[Sequence[str]], terms: Sequence[str]) -> dict[int, float]:
    n = len(docs)
    total = sum(map(len, docs))
    average = total / n if n and total else 1.0
    df = {t: sum(t in d for d in docs) for t in set(terms)}
    idf = {t: math.log(1 + (n - f + 0.5) / (f + 0.5)) for t, f in df.items() if f}
    rare = {t: w for t, w in idf.items() if w >= bm25.MIN_IDF} or idf
    out = {}
    for i, doc in enumerate(docs):
        counts = Counter(doc)
        norm = bm25.K1 * (1 - bm25.B + bm25.B * len(doc) / average)
        score = sum(
            w * counts[t] * (bm25.K1 + 1) / (counts[t] + norm) for t, w in rare.items() if counts[t]
        )
        if score:
            out[i] = score
    return out


@given(documents, st.lists(st.sampled_from(WORDS), min_size=1, unique=True))
def test_scores_are_the_formula(docs: list[list[str]], terms: list[str]) -> None:
    assert ranked(docs, (), set(), terms) == pytest.approx(by_definition(docs, terms), rel=1e-5)


def test_only_terms_that_count_whole_silence_common_ones() -> None:
    docs = [["alpha", "rare"], *[["alpha", "beta"]] * 8]
    assert set(ranked(docs, (), set(), ["alpha", "rare"])) == {0}
    # A report's title counts more than another term: it is the query's own.
    assert set(ranked(docs, (), set(), ["alpha", "rare"], {"rare": 2.0})) == {0}
    assert len(ranked(docs, (), set(), ["alpha", "rare"], {"rare": 0.5})) == len(docs)


@given(
    documents,
    st.lists(st.integers(0, 12), max_size=4),
    st.sets(st.integers(0, 11), max_size=6),
    st.lists(st.sampled_from(WORDS), min_size=1, unique=True),
)
def test_segments_and_the_dead_change_nothing(
    docs: list[list[str]], cuts: list[int], dead: set[int], terms: list[str]
) -> None:
    living = [i for i in range(len(docs)) if i not in dead]
    alone = ranked([docs[i] for i in living], (), set(), terms) if living else {}
    assert ranked(docs, cuts, dead, terms) == {living[i]: score for i, score in alone.items()}


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_common_from_is_where_idf_falls_below_the_limit(living: int, df: int) -> None:
    if df <= living:
        assert (bm25.idf(living, df) < bm25.MIN_IDF) == (df >= bm25.common_from(living))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 30))
def test_best_keeps_all_ties_of_the_last(values: list[int], k: int) -> None:
    n = len(values)
    ids = b"".join(item(n - i).bytes for i in range(n))
    space = Space({1: 0}, np.ones(n, np.float32), np.frombuffer(ids, "V16"), None, n)
    order, complete = bm25.best(space, np.array(values, np.float32), k)
    positive = sorted((-v, n - i, i) for i, v in enumerate(values) if v)
    expected = [i for _, _, i in positive]
    assert order.tolist() == expected[: len(order)]
    assert len(order) >= min(k, len(expected))
    assert complete == (len(expected) <= k)
    if not complete:
        last = values[expected[k - 1]]
        assert len(order) == sum(v >= last for v in values)


def test_only_keeps_the_scores_of_the_ids_given() -> None:
    ids = b"".join(item(i).bytes for i in range(5))
    space = Space({1: 0}, np.ones(5, np.float32), np.frombuffer(ids, "V16"), None, 5)
    scores = np.array([1, 0, 3, 4, 5], np.float32)
    wanted = item(4).bytes + item(1).bytes + item(2).bytes + item(77).bytes
    assert bm25.only(space, scores, wanted).tolist() == [0, 0, 3, 0, 5]
    assert bm25.only(space, scores, b"").tolist() == [0] * 5


def test_the_cache_drops_the_least_recently_used() -> None:
    cache = bm25.SpaceCache(docs=10)
    spaces = {
        n: (SegmentRef(n, 1, "files", 4, 0), Space({}, np.ones(4, np.float32), np.zeros(4, "V16"), None, 4))
        for n in range(4)
    }  # fmt: skip
    for n in (0, 1):
        cache.put([spaces[n][0]], spaces[n][1])
    assert cache.get([spaces[0][0]]) is spaces[0][1]
    cache.put([spaces[2][0]], spaces[2][1])
    assert cache.get([spaces[1][0]]) is None
    assert cache.get([spaces[0][0]]) is spaces[0][1]


def test_frequencies_are_capped() -> None:
    segment = segments.build([item(0)], [["word"] * 300])
    docs, tfs = segments.split_body(segment.docs[0] + segment.tfs[0])
    assert (docs.tolist(), tfs.tolist()) == ([0], [255])
    assert TermPostings(docs.astype(np.int64), tfs).tfs[0] == 255


@pytest.mark.parametrize("documents", [149, 9_000, 30_001])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.02, 0.4, 1.0])
@pytest.mark.parametrize("k", [1, 150])
def test_best_of_many_is_as_of_all_sorted(documents: int, share: float, k: int) -> None:
    chance = np.random.default_rng(documents + k)
    scores = np.zeros(documents, np.float32)
    found = chance.choice(documents, int(share * documents), replace=False)
    scores[found] = chance.integers(1, 200, len(found)) / 8  # with ties
    space = Space({}, scores, np.frombuffer(chance.bytes(16 * documents), "V16"), None, documents)
    order, complete = bm25.best(space, scores, k)
    ranked = sorted(
        np.flatnonzero(scores).tolist(), key=lambda i: (-scores[i], space.ids[i].tobytes())
    )
    if len(ranked) > k:
        ranked = [i for i in ranked if scores[i] >= scores[ranked[k - 1]]]
    assert order.tolist() == ranked
    assert complete == (np.count_nonzero(scores) <= k)
