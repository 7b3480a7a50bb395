"""What turns next to each other say of each other, and what a turn's length and form do."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.domain.values import Candidate, Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking import threads


def n(number: int) -> ItemId:
    return ItemId(UUID(int=number))


def place(
    *,
    session: str = "s",
    tokens: int = 100,
    asks: bool = False,
    type_: str = "episodic",
    collection: Collection = Collection.MEMORIES,
    episode: UUID | None = None,
) -> Place:
    return Place(
        "r", collection, "", "", "turn", False, ts=datetime(2026, 1, 1, tzinfo=UTC), type=type_,
        session_key=session, tokens=tokens, is_question=asks, episode_id=episode,
    )  # fmt: skip


def test_a_reply_without_a_word_of_the_question_comes_before_what_is_far_from_it() -> None:
    fused = {n(1): 1.0, n(9): 0.1}
    scores = threads.neighbour_boost({n(1): {n(2): 1}, n(9): {}}, fused, [n(1), n(9)])
    assert scores[n(1)] == 1.0
    assert scores[n(2)] == pytest.approx(threads.WEIGHTS.share)
    assert scores[n(2)] > fused[n(9)]


def test_neighbours_lift_each_other_the_less_the_further_apart() -> None:
    fused = {n(1): 0.5, n(2): 0.5, n(4): 0.5, n(8): 0.5, n(9): 1.0}
    around = {n(1): {n(2): 1, n(4): 3}, n(8): {}, n(9): {}}
    scores = threads.neighbour_boost(around, fused, list(fused))
    assert scores[n(1)] > scores[n(2)] > scores[n(4)]
    assert n(8) not in scores  # nothing is next to it, and nothing had to be scaled


def test_what_is_next_to_a_seed_gains_from_it_though_it_was_no_seed_itself() -> None:
    either = threads.neighbour_boost({n(1): {n(2): 1}}, {n(1): 0.4, n(2): 0.2, n(3): 1.0}, [n(3)])
    assert either[n(1)] == pytest.approx(0.4 + threads.WEIGHTS.share * 0.2)
    assert either[n(2)] == pytest.approx(0.2 + threads.WEIGHTS.share * 0.4)


def test_a_turn_gains_from_the_words_of_the_one_before_it_and_not_the_other_way_round() -> None:
    fused = {n(1): 0.4, n(2): 0.4, n(9): 1.0}
    words = {n(1): 0.4, n(2): 0.0}
    for around in ({n(1): {n(2): 1}}, {n(2): {n(1): -1}}):
        scores = threads.neighbour_boost(around, fused, [n(9)], words)
        assert scores[n(2)] - scores[n(1)] == pytest.approx(threads.WEIGHTS.answer * 0.4)


def test_what_words_say_is_their_share_of_the_fused_score() -> None:
    found = {"lexical": [Candidate(n(1), 8.0), Candidate(n(2), 2.0)], "semantic": []}
    assert threads.by_words(found, {"lexical": 0.4, "semantic": 0.6}) == {n(1): 1.0, n(2): 0.25}
    both = {**found, "semantic": [Candidate(n(3), 0.5)]}
    assert threads.by_words(both, {"lexical": 0.4, "semantic": 0.6}) == pytest.approx(
        {n(1): 0.4, n(2): 0.1}
    )
    assert threads.by_words({"semantic": []}, {"lexical": 0.4, "semantic": 0.6}) == {}


def test_the_best_by_words_bring_their_neighbours_though_many_others_are_better() -> None:
    order = [n(i) for i in range(100)]
    places = dict.fromkeys(order, place())
    assert n(99) in threads.seeds(order, places, {n(99): 0.1})
    assert n(99) not in threads.seeds(order, places, {})


steps = st.integers(-threads.WEIGHTS.reach, threads.WEIGHTS.reach).filter(bool)


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0, 1), min_size=1),
    st.dictionaries(st.integers(1, 9), st.dictionaries(st.integers(1, 12), steps)),
)
def test_the_best_keeps_its_score_and_none_is_above_it(
    fused: dict[int, float], around: dict[int, dict[int, int]]
) -> None:
    known = {n(i): score for i, score in fused.items()}
    beside = {
        n(seed): {n(i): step for i, step in near.items() if i != seed}
        for seed, near in around.items()
    }
    scores = {**known, **threads.neighbour_boost(beside, known, list(known))}
    assert max(scores.values()) == pytest.approx(max(known.values()))
    assert min(scores.values()) >= 0.0


@given(
    st.dictionaries(st.integers(1, 9), st.floats(0, 1), min_size=9, max_size=9),
    st.permutations(range(2, 10)),
)
def test_the_order_in_which_neighbours_come_changes_no_digit(
    fused: dict[int, float], others: list[int]
) -> None:
    known = {n(i): score for i, score in fused.items()}
    either, other = (
        threads.neighbour_boost({n(1): {n(i): i - 1 for i in given}}, known, list(known), known)
        for given in (others, sorted(others))
    )
    assert either == other


def test_only_what_was_said_in_a_session_or_a_run_is_in_a_thread() -> None:
    assert threads.in_thread(place())
    assert threads.in_thread(place(session="", episode=UUID(int=7)))
    assert not threads.in_thread(place(session=""))
    assert not threads.in_thread(place(collection=Collection.DIFFS))


def test_questions_and_turns_of_few_words_count_less_facts_and_rules_do_not() -> None:
    places = {
        n(1): place(tokens=3),
        n(2): place(tokens=60),
        n(3): place(tokens=60, asks=True),
        n(4): place(tokens=3, type_="procedural"),
        n(5): place(tokens=3, session=""),
        n(6): place(tokens=3, type_="semantic"),
    }
    found = threads.turn_factors(places)
    assert found[n(1)] < 0.8
    assert found[n(2)] == pytest.approx(1.0, abs=1e-4)
    assert found[n(3)] == pytest.approx(threads.WEIGHTS.question, abs=1e-4)
    assert n(4) not in found
    assert n(5) not in found
    assert n(6) not in found
