"""Laws of uniting rankings."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Candidate, ItemId
from plait.retrieval.ranking import fusion

ids = st.integers(0, 60).map(lambda n: ItemId(UUID(int=n)))
scores = st.floats(-1e6, 1e6, allow_nan=False)
weights = st.floats(0.01, 1.0)
METHODS = [fusion.minmax, fusion.rrf]


@st.composite
def rankings(draw: st.DrawFn) -> list[Candidate]:
    """One arm's answer: distinct ids, best first, ties by id."""
    found = draw(st.dictionaries(ids, scores, max_size=40))
    candidates = [Candidate(id_, score) for id_, score in found.items()]
    return sorted(candidates, key=lambda c: (-c.score, c.id.int))


@pytest.mark.parametrize("unite", METHODS)
@given(arms=st.dictionaries(st.sampled_from("abc"), rankings()), share=weights)
def test_nothing_is_lost_and_scores_are_in_bounds(
    unite: fusion.Unite, arms: dict[str, list[Candidate]], share: float
) -> None:
    fused = unite(arms, {"a": share, "b": 1.0, "c": 0.3})
    assert set(fused) == {c.id for ranking in arms.values() for c in ranking}
    assert all(0.0 <= score <= 1.0 for score in fused.values())
    assert sorted(fusion.order(fused, arms)) == sorted(fused)


@pytest.mark.parametrize("unite", METHODS)
@given(ranking=rankings(), share=weights)
def test_a_lone_ranking_keeps_its_order(
    unite: fusion.Unite, ranking: list[Candidate], share: float
) -> None:
    arms = {"a": ranking, "b": []}
    fused = unite(arms, {"a": share, "b": 1.0})
    assert fusion.order(fused, arms) == [c.id for c in ranking]
    if ranking:
        assert fused[ranking[0].id] == pytest.approx(1.0)


@pytest.mark.parametrize("unite", METHODS)
@given(arms=st.dictionaries(st.sampled_from("abc"), rankings(), min_size=1))
def test_the_order_of_the_arms_does_not_matter(
    unite: fusion.Unite, arms: dict[str, list[Candidate]]
) -> None:
    weight = {"a": 0.25, "b": 0.5, "c": 0.25}
    back = dict(reversed(arms.items()))
    forward, backward = unite(arms, weight), unite(back, weight)
    assert forward == pytest.approx(backward)


@pytest.mark.parametrize("unite", METHODS)
def test_an_item_that_both_arms_put_first_scores_one(unite: fusion.Unite) -> None:
    a, b = ItemId(UUID(int=1)), ItemId(UUID(int=2))
    arms = {"x": [Candidate(a, 9.0), Candidate(b, 1.0)], "y": [Candidate(a, 0.9)]}
    fused = unite(arms, {"x": 0.3, "y": 0.7})
    assert fused[a] == pytest.approx(1.0)
    assert fusion.order(fused, arms) == [a, b]


@given(ranking=rankings())
def test_min_max_does_not_care_for_an_arm_s_scale(ranking: list[Candidate]) -> None:
    other = [Candidate(ItemId(UUID(int=61)), 3.0), Candidate(ItemId(UUID(int=62)), 1.0)]
    stretched = [Candidate(c.id, c.score * 4.0) for c in ranking]
    weight = {"a": 0.5, "b": 0.5}
    plain = fusion.minmax({"a": ranking, "b": other}, weight)
    assert fusion.minmax({"a": stretched, "b": other}, weight) == pytest.approx(plain)


def test_ties_go_to_the_better_rank_then_the_smaller_id() -> None:
    a, b, c = (ItemId(UUID(int=n)) for n in (1, 2, 3))
    arms = {"x": [Candidate(c, 1.0), Candidate(b, 1.0), Candidate(a, 1.0)]}
    assert fusion.order({a: 1.0, b: 1.0, c: 1.0}, arms) == [c, b, a]
    assert fusion.order({a: 1.0, b: 1.0}, {"x": [Candidate(b, 1.0)], "y": [Candidate(a, 1.0)]}) == [
        a,
        b,
    ]


@pytest.mark.parametrize("unite", METHODS)
@given(arms=st.dictionaries(st.sampled_from("abc"), rankings(), min_size=1), beside=rankings())
def test_what_is_related_takes_nothing_from_what_matched(
    unite: fusion.Unite, arms: dict[str, list[Candidate]], beside: list[Candidate]
) -> None:
    weight = {"a": 0.25, "b": 0.5, "c": 0.25, "relations": 0.3}
    alone, both = unite(arms, weight), unite({**arms, "relations": beside}, weight)
    assert all(both[id_] >= score - 1e-12 for id_, score in alone.items())
    added = {id_: both[id_] for id_ in both.keys() - alone.keys()}
    assert all(score <= 0.3 + 1e-12 for score in added.values())
    assert {id_: both[id_] for id_ in alone.keys() - {c.id for c in beside}} == {
        id_: score for id_, score in alone.items() if id_ not in {c.id for c in beside}
    }
