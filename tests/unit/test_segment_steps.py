"""Which segments the next merge of agents' text takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector.index.segments import MAX_MERGED, MAX_RUN, MAX_SEGMENTS, _step


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([], 0),
        ([1], 0),
        ([500] * MAX_RUN, 0),
        ([500] * (MAX_RUN + 1), MAX_RUN + 1),
        ([1, *[500] * 210], 211),  # one tiny segment holds nothing up
        ([1, 20, *[500] * 9, 100_000], 11),
        ([4**n for n in range(8)], 0),
    ],
)
def test_a_long_run_of_similar_sizes_becomes_one(sizes: list[int], merged: int) -> None:
    assert _step(sizes) == merged


def test_short_runs_are_merged_where_there_are_many() -> None:
    sizes = [3**n for n in range(4) for _ in range(7)]
    assert len(sizes) > MAX_SEGMENTS
    assert len(sizes) - _step(sizes) + 1 <= MAX_SEGMENTS


def test_a_step_writes_a_bounded_number_of_documents() -> None:
    sizes = [MAX_MERGED // 4] * 40
    assert sum(sizes[: _step(sizes)]) <= MAX_MERGED
    assert _step(sizes) > 1


@given(st.lists(st.integers(1, MAX_MERGED // 2), max_size=300))
def test_steps_end_with_few(sizes: list[int]) -> None:
    """However they lie: what is left is few small ones, and those that no merge takes any more."""
    full = 0
    sizes = sorted(sizes)
    for _ in range(400):
        few = _step(sizes)
        if not few:
            break
        assert few > 1
        made = sum(sizes[:few])
        assert made <= MAX_MERGED
        sizes = sizes[few:]
        if made <= MAX_MERGED // 2:
            sizes = sorted([*sizes, made])
        else:
            full += 1
    assert not _step(sizes)
    assert len(sizes) <= MAX_SEGMENTS
