"""What of a run a question asks for."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking import query_intent, threads
from plait.retrieval.ranking.query_intent import Intent, Part

PROMPT, SAID, OUTPUT, LATER, TEST, DIFF, TRIED = (ItemId(UUID(int=n)) for n in range(1, 8))


def place(collection: Collection = Collection.MEMORIES, source: str = "agent") -> Place:
    return Place("app", collection, "", "", "turn", False, 0, 0, source=source, session_key="run-1")


RUN = {
    PROMPT: place(source="user"),
    SAID: place(),
    OUTPUT: place(),
    LATER: place(source="user"),
    TEST: place(Collection.TESTS),
    DIFF: place(Collection.DIFFS),
    TRIED: replace(place(), path="src/a.py"),
}
EXTERNAL = frozenset([OUTPUT, TRIED])


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("Why did the checkout test fail?", {Intent.WHY, Intent.RESULT}),
        ("which fix was tried first and why was it dropped", {Intent.CHANGE, Intent.WHY}),
        ("What command did the agent use to run the suite?", {Intent.COMMAND, Intent.RESULT}),
        ("What did the user forbid?", {Intent.USER}),
        ("How many warnings were there?", {Intent.RESULT}),
        ("the release of the parser", set()),
    ],
)
def test_words_say_what_is_asked_for(text: str, wishes: set[Intent]) -> None:
    assert query_intent.intents(text) == wishes


def less(text: str) -> set[ItemId]:
    return set(query_intent.intent_factors(text, RUN, EXTERNAL, frozenset([PROMPT])))


def test_a_diff_and_the_prompt_count_less_where_nobody_asks_for_them() -> None:
    assert less("the release of the parser") == {PROMPT, DIFF, TRIED}


def test_a_question_for_a_reason_prefers_what_was_said() -> None:
    assert less("Why was the lease renewed twice?") == {PROMPT, LATER, DIFF, TRIED, OUTPUT, TEST}


def test_a_question_for_a_command_prefers_commands_to_talk() -> None:
    assert less("Which command was run on the box?") == {PROMPT, LATER, DIFF, TRIED, SAID}


def test_a_question_about_the_user_prefers_what_the_user_said() -> None:
    assert less("What did the user prefer?") == {SAID, OUTPUT, TEST, DIFF, TRIED}


def test_a_question_for_a_fix_prefers_changes_and_what_was_said_of_them() -> None:
    assert less("Which fix was it?") == {PROMPT, LATER, OUTPUT, TEST}


def test_a_conversation_without_tools_is_left_alone() -> None:
    talk = {id_: RUN[id_] for id_ in (PROMPT, SAID, LATER)}
    assert (
        query_intent.intent_factors(
            "Which command was run?", talk, frozenset(), frozenset([PROMPT])
        )
        == {}
    )


def test_a_prompt_of_the_system_makes_no_run() -> None:
    talk = {OUTPUT: RUN[OUTPUT], SAID: RUN[SAID], LATER: RUN[LATER]}
    assert (
        query_intent.intent_factors("How many?", talk, frozenset([OUTPUT]), frozenset([OUTPUT]))
        == {}
    )


def test_other_sessions_and_code_keep_their_scores() -> None:
    other = replace(place(source="user"), session_key="talk")
    code = replace(place(Collection.FILES), session_key="")
    ids = [ItemId(UUID(int=n)) for n in (20, 21)]
    places = {**RUN, ids[0]: other, ids[1]: code}
    found = query_intent.intent_factors(
        "the release", places, EXTERNAL, frozenset([PROMPT, ids[0]])
    )
    assert not set(ids) & set(found)


def test_what_an_agent_is_going_to_do_counts_less_but_not_a_question_once_more() -> None:
    places = {
        **RUN,
        SAID: replace(RUN[SAID], announces_step=True),
        LATER: replace(RUN[LATER], announces_step=True),
    }
    found = query_intent.intent_factors("the release", places, EXTERNAL, frozenset([PROMPT]))
    assert found[SAID] == query_intent.WEIGHTS.announces_next_step
    assert LATER not in found
    places[SAID] = replace(places[SAID], is_question=True)
    assert SAID not in query_intent.intent_factors(
        "the release", places, EXTERNAL, frozenset([PROMPT])
    )


def test_the_first_and_the_last_of_a_kind_come_first() -> None:
    edits = [ItemId(UUID(int=n)) for n in (30, 31, 32)]
    places = dict.fromkeys(edits, RUN[DIFF]) | {TEST: RUN[TEST]}
    first = query_intent.intent_factors("What was the first fix?", places, frozenset())
    assert [first.get(id_, 1.0) for id_ in edits] == pytest.approx([1.0, 0.85, 0.7])
    last = query_intent.intent_factors("What is the final fix?", places, frozenset())
    assert [last.get(id_, 1.0) for id_ in edits] == pytest.approx([0.7, 0.85, 1.0])
    both = query_intent.intent_factors("the first fix and the last fix", places, frozenset())
    assert not set(edits) & set(both)


def test_nothing_is_taken_away_altogether() -> None:
    for part in Part:
        for first in Intent:
            for second in Intent:
                assert 0.3 < query_intent.intent_factor(part, frozenset([first, second])) <= 1.0


def test_an_opening_has_nothing_right_before_it() -> None:
    around = {PROMPT: {SAID: 1}, SAID: {PROMPT: -1, OUTPUT: 1}}
    assert threads.first_turns(around) == {PROMPT}
