"""Learn over the real store: one turn, once, without what is in memory already."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from plait.domain.errors import MemoryInvalid, RequestIdReused
from plait.domain.memory import MemoryFilter
from plait.domain.scope import Scope
from plait.memory.learn import ToolOutcome, Turn, learn
from plait.memory.turn import RECALLED, TRIVIAL
from vector.store import Store

HERE = Scope("default", "r", "a", "s")
TURN = Turn(
    "The login fails on Safari. We use pnpm here.",
    "The cookie is not sent because SameSite is strict.",
    (ToolOutcome("bash", "1 failed", "pnpm test", succeeded=False),),
)


async def contents(store: Store, tenant: str = "default") -> list[str]:
    page = await store.memories.list(MemoryFilter(tenant=tenant, all_repos=True), limit=100)
    return sorted(entry.content for entry in page.entries)


async def test_a_turn_is_learnt_once(store: Store) -> None:
    first = await learn(store.memories, HERE, TURN, "q")
    assert len(first.receipts) == 4
    assert (first.note, first.repeated) == ("", False)
    again = await learn(store.memories, HERE, TURN, "q")
    assert again == replace(first, repeated=True)
    assert len(await contents(store)) == 4
    with pytest.raises(RequestIdReused):
        await learn(store.memories, HERE, replace(TURN, user_message="other"), "q")


async def test_at_once_from_many_sides(store: Store, other: Store) -> None:
    sides = [(store, other)[i % 2] for i in range(8)]
    receipts = await asyncio.gather(*(learn(s.memories, HERE, TURN, "q") for s in sides))
    assert [r.repeated for r in receipts].count(False) == 1
    assert len({tuple(x.entry.id for x in r.receipts) for r in receipts}) == 1
    assert len(await contents(store)) == 4


async def test_without_an_id_equal_turns_are_one_while_they_live(store: Store) -> None:
    turn = Turn("Never deploy on Fridays.")
    (one,) = (await learn(store.memories, HERE, turn)).receipts
    assert (await learn(store.memories, HERE, turn)).repeated
    await store.memories.delete("default", "r", one.entry.id)
    anew = await learn(store.memories, HERE, turn)
    assert not anew.repeated
    assert await contents(store) == ["Never deploy on Fridays."]


async def test_what_is_known_is_not_stored_again(store: Store) -> None:
    await learn(store.memories, HERE, Turn("Staging is on port 8443 since May"), "1")
    echo = Turn("", "## Relevant Memories\n- [score: 0.85] Staging is on port 8443 since May\n")
    assert (await learn(store.memories, HERE, echo, "2")).note == RECALLED
    said = Turn("", "STAGING is on port 8443, since May.\n\nSo I opened the firewall for it.")
    (receipt,) = (await learn(store.memories, replace(HERE, session_key="t"), said, "3")).receipts
    assert receipt.entry.content == "So I opened the firewall for it."
    again = await learn(store.memories, HERE, Turn("staging is on port 8443 since may"), "4")
    assert (again.receipts, again.note) == ((), RECALLED)
    # Another agent's memory is none of this one's.
    theirs = await learn(
        store.memories, replace(HERE, agent_id="b"), Turn("staging is on port 8443 since may")
    )
    assert len(theirs.receipts) == 1


async def test_trivial_turns_are_skipped_with_a_cause(store: Store) -> None:
    skipped = await learn(store.memories, HERE, Turn("ok thanks"), "q")
    assert (skipped.receipts, skipped.note, skipped.repeated) == ((), TRIVIAL, False)
    assert await learn(store.memories, HERE, Turn("ok thanks"), "q") == replace(
        skipped, repeated=True
    )
    assert await contents(store) == []


async def test_tenants_learn_apart(store: Store) -> None:
    await learn(store.memories, HERE, TURN, "q")
    theirs = await learn(store.memories, replace(HERE, tenant="acme"), TURN, "q")
    assert not theirs.repeated
    assert len(await contents(store, "acme")) == 4


async def test_a_bad_turn_stores_nothing(store: Store) -> None:
    with pytest.raises(MemoryInvalid):
        await learn(store.memories, HERE, Turn("x\0"), "q")
    with pytest.raises(MemoryInvalid):
        await learn(store.memories, HERE, Turn("x"), "no spaces")
    assert await contents(store) == []
