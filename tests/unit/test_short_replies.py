"""A turn of a few words is shown with what it replies to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from plait.domain.deadline import Deadline
from plait.domain.recall import PackingOptions
from plait.domain.values import Collection, Item, ItemId
from plait.ports import ItemState, Place, View
from plait.retrieval.packing import context_block
from plait.retrieval.packing.reasons import MAX_QUOTED, replies_to
from plait.retrieval.query.analysis import SearchQuery, analyse
from plait.retrieval.ranking import threads
from plait.retrieval.search_context import SearchContext
from plait.settings import RecallSettings

ASKED, REPLY, LONG = (ItemId(UUID(int=n)) for n in (1, 2, 3))
TEXTS = {ASKED: "I have two. Which one do you want?", REPLY: "the second", LONG: "x " * 80}


def place(tokens: int) -> Place:
    return Place(
        "app", Collection.MEMORIES, "", "", "turn", False, 0, 0, session_key="s", tokens=tokens
    )


PLACES = {ASKED: place(9), REPLY: place(2), LONG: place(160)}
AROUND = {ASKED: {REPLY: 1}, REPLY: {ASKED: -1, LONG: 1}, LONG: {REPLY: -1}}


def shown(*, external: bool = False, known: bool = True, asked: str = TEXTS[ASKED]) -> str:
    items = {
        id_: Item(
            id_, Collection.MEMORIES, "app", "turn", "", "", "", 0, 0, text, datetime(2026, 1, 2, tzinfo=UTC)
        )
        for id_, text in {**TEXTS, ASKED: asked}.items()
    }  # fmt: skip
    query = SearchQuery("which one")
    ctx = SearchContext(
        query,
        analyse(query),
        10,
        "minmax",
        Deadline.after(10.0),
        options=PackingOptions(),
        view=View((), "", 0),
        fused={REPLY: 1.0},
        places=PLACES,
        before=threads.before(AROUND, PLACES),
        item_states={ASKED: ItemState(False, external=external)} if known else {},
    )
    assert set(context_block.ids_to_fetch(ctx, [REPLY])) == {REPLY, ASKED}
    block = context_block.block(ctx, [REPLY], {}, items, {}, RecallSettings()).block
    assert block is not None
    return block.context


def test_only_short_turns_are_shown_with_the_one_before() -> None:
    assert threads.before(AROUND, PLACES) == {REPLY: ASKED}


@pytest.mark.parametrize("kind", ["semantic", "procedural"])
def test_a_fact_is_no_reply_to_what_was_kept_before_it(kind: str) -> None:
    places = {**PLACES, REPLY: replace(PLACES[REPLY], type=kind)}
    assert threads.before(AROUND, places) == {}


def test_the_question_stands_beside_the_reply() -> None:
    assert "after “Which one do you want?”" in shown()
    assert "the second" in shown()


@pytest.mark.parametrize(("external", "known"), [(True, True), (False, False)])
def test_what_a_tool_said_or_nobody_knows_is_not_quoted(external: bool, known: bool) -> None:
    assert "after “" not in shown(external=external, known=known)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hi. Is v1.2 out?", "Is v1.2 out?"),
        ("Where is it?\nI looked\neverywhere", "Where is it?"),
        ("I went home\nand slept", "I went home"),
    ],
)
def test_the_last_question_is_quoted_else_the_first_line(text: str, said: str) -> None:
    assert replies_to(text) == f"after “{said}”"


def test_a_quote_is_bounded_and_of_one_line() -> None:
    said = replies_to("why \u2028 " + "very " * 5_000 + "?")
    assert len(said) <= MAX_QUOTED + len("after “”")
    assert "\u2028" not in said


@pytest.mark.parametrize("text", ["", "\n \n", "????", "\u200b\u202e?", "```"])
def test_what_says_nothing_is_not_quoted(text: str) -> None:
    assert replies_to(text) == ""
    assert "after" not in shown(asked=text)
