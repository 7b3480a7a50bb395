"""What was said next to a memory, on every PostgreSQL: sessions, runs, times, tenants."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from etl.truth import rules
from plait.domain.memory import (
    NO_ID,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryType,
)
from plait.domain.retention import Selector
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Filter,
    ItemId,
    Outcome,
)
from plait.memory.entry import check
from plait.ports.episodes import NumberedEpisode, PreparedEpisode
from plait.text.tokenize import query_terms
from tests.memory_queries import query
from tests.waiting_texts import waiting_texts
from vector.episodes.store import Episodes
from vector.forget import traces
from vector.search import threads
from vector.search.filters import condition
from vector.store import Store

TENANT = "default"
HERE = Filter(repos=("r",), collections=())


async def say(
    store: Store, *texts: str, session: str = "s", agent: str = "a", repo: str = "r"
) -> list[ItemId]:
    """One transaction a text, as a conversation comes in."""
    ids = []
    for text in texts:
        metadata = MemoryMetadata(session_key=session)
        entry = MemoryEntry(NO_ID, repo, agent, text, metadata, MemoryType.EPISODIC, kind="turn")
        (kept,) = await store.memories.store(TENANT, [check(entry, str(uuid4()))])
        assert isinstance(kept, MemoryReceipt)
        ids.append(ItemId(kept.entry.id))
    return ids


async def beside(store: Store, id_: ItemId, reach: int, where: Filter = HERE) -> dict[ItemId, int]:
    view = await store.search.view(where)
    return dict((await store.search.around(view, [id_], where, reach)).get(id_, {}))


async def test_turns_of_one_session_in_the_order_they_were_said(store: Store) -> None:
    first = await say(store, "one", "two")
    await say(store, "elsewhere", session="t")
    await say(store, "nowhere", "anywhere", session="")
    second = await say(store, "three", "four", "five", agent="b")
    await say(store, "three", repo="r2")
    ids = first + second
    assert await beside(store, ids[2], 4) == {ids[0]: -2, ids[1]: -1, ids[3]: 1, ids[4]: 2}
    assert await beside(store, ids[2], 1) == {ids[1]: -1, ids[3]: 1}
    assert await beside(store, ids[0], 2) == {ids[1]: 1, ids[2]: 2}


async def test_without_a_session_only_a_run_has_turns_next_to_each_other(store: Store) -> None:
    (alone,) = await say(store, "alone", session="")
    said = [
        Artifact(ArtifactKind.TURN, "run the tests", meta={"role": "user"}),
        Artifact(ArtifactKind.PLAN, "first look, then run"),
        Artifact(ArtifactKind.TURN, "two of them fail"),
    ]
    await store.episodes.append(Episode("e1", "r", Outcome("success"), said, body_hash=b"1"))
    await store.episodes.append(Episode("e2", "r", Outcome("success"), said[:1], body_hash=b"2"))
    listed = (
        await store.memories.list(MemoryFilter(repos=("r",), kinds=("turn",)), limit=9)
    ).entries
    (fails,) = [e for e in listed if e.content == "two of them fail"]
    (found,) = (await beside(store, ItemId(fails.id), 4)).items()
    assert found[1] == -1
    (asked,) = [e for e in listed if ItemId(e.id) == found[0]]
    assert asked.content == "run the tests"
    assert await beside(store, alone, 4) == {}


async def test_what_is_closed_filtered_or_later_is_stepped_over(store: Store) -> None:
    one, two, three = await say(store, "one", "two", "three")
    (four,) = await say(store, "four", agent="b")
    now = AsOf(recorded=(await store.memories.get(TENANT, "r", two)).updated_at)  # type: ignore[arg-type]
    await store.memories.delete(TENANT, "r", two)  # type: ignore[arg-type]
    assert await beside(store, one, 4) == {three: 1, four: 2}
    assert await beside(store, one, 4, replace(HERE, agent_id="a")) == {three: 1}
    assert await beside(store, one, 4, replace(HERE, as_of=now)) == {two: 1}
    code = replace(HERE, collections=(Collection.FILES,))
    assert await store.search.around(await store.search.view(HERE), [one], code, 4) == {}


COPIES = """
INSERT INTO memories (id, repo_id, collection, kind, content_hash, agent_id, session_key, content, ts,
                      recorded_at, entry_id, created_at)
SELECT gen_random_uuid(), m.repo_id, 'memories', 'turn', sha256(g::text::bytea), 'a', 'many' || g / 20, '', m.ts,
       m.recorded_at, gen_random_uuid(), m.created_at
  FROM (SELECT * FROM memories LIMIT 1) m, generate_series(1, 5000) g
"""


async def test_neighbours_are_found_by_their_session_at_any_time(
    store: Store, truth_dsn: str
) -> None:
    """As of a recorded time as well, not by reading the repository for each turn."""
    ids = await say(store, "one", "two", "three")
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute(COPIES)
        conn.execute("ANALYZE memories")
    now = AsOf(recorded=(await store.memories.get(TENANT, "r", MemoryId(ids[2]))).updated_at)
    for where in (HERE, replace(HERE, as_of=now)):
        view = await store.search.view(where)
        assert await beside(store, ids[0], 4, where) == {ids[1]: 1, ids[2]: 2}
        cond = condition(view, replace(where, collections=(Collection.MEMORIES,)))
        plan = await store.app.rows(
            f"EXPLAIN {threads.query(cond.where)}",
            {**cond.params, "ids": ids, "reach": 4},
            tenant=TENANT,
        )
        used = [line for (line,) in plan if "using memories_session" in line]
        assert len(used) == 2, "before and after"


async def test_what_is_far_away_is_not_next_to_a_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is all of a long session read for the few that a filter keeps."""
    monkeypatch.setattr(threads, "MAX_FAR", 5)
    ids = await say(store, *[f"{n}" for n in range(9)], agent="a")
    (last,) = await say(store, "last", agent="b")
    (after,) = await say(store, "after", agent="a")
    mine = replace(HERE, agent_id="a")
    assert await beside(store, after, 4, replace(HERE, agent_id="b")) == {last: -1}
    assert await beside(store, ids[3], 4, replace(HERE, agent_id="b")) == {}
    assert await beside(store, after, 9, mine) == {ids[8 - n]: -1 - n for n in range(4)}


async def test_a_reply_rises_with_the_question_it_answers(store: Store) -> None:
    """Of two equal texts the one that was said behind what the query is about."""
    filler = [f"something about number {i} and nothing else, said at some length" for i in range(9)]
    await say(store, *filler, "when do we have the dinner with Hanna?", "at six on Friday then")
    await say(store, *filler, "at six on Friday then", session="t")
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=3)
    found = await query(store, "dinner with Hanna on Friday", None, options)
    said = [(m.entry.content, m.entry.metadata.session_key) for m in found]
    assert said.index(("at six on Friday then", "s")) < said.index(("at six on Friday then", "t"))


async def test_what_is_too_far_down_to_be_looked_at_stays_down(store: Store) -> None:
    """That a turn only asks counts against it: not in favour of those that were not looked at."""
    await say(store, *[f"dinner with Hanna at {n}?" for n in range(90)])
    await say(store, *[f"dinner with Hanna and others at {n}?" for n in range(60)])
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=20)
    found = await query(store, "dinner with Hanna", None, options)
    assert len(found) == 20
    assert all("others" not in m.entry.content for m in found)
    assert [m.score for m in found] == sorted((m.score for m in found), reverse=True)


async def test_a_text_that_only_asks_is_told_by_its_place(store: Store) -> None:
    texts = {
        "Kyle: where did you go on Friday?": True,
        "really?!": True,
        "I went home. And you?": False,
        "is it v1.2 that fails?": False,
        "it is so": False,
        "where?\nnowhere": False,
        "what " * 100 + "?": False,
    }
    ids = await say(store, *texts)
    view = await store.search.view(HERE)
    places = await store.search.places(view, ids)
    assert [places[id_].is_question for id_ in ids] == list(texts.values())
    assert all(places[id_].tokens > 0 for id_ in ids)


async def test_a_turn_that_looks_ahead_is_told_by_its_place(store: Store) -> None:
    texts = {
        "Let me look at `src/app.py` first.": True,
        "OK, now I'll run the tests of v1.2": True,
        "I'm going to write a small script…": True,
        "There is an old flag. Shall I keep it?": True,
        "I'll keep thirty seconds, since a crash would block the job.": False,
        "I won't touch the format.": False,
        "Let me see. The lock is taken twice.": False,
        "So the lock is taken twice.": False,
        "Nowhere is it written.": False,
        "Let me " + 50 * "really " + "look": False,
    }
    said = [Artifact(ArtifactKind.TURN, text, meta={"role": "assistant"}) for text in texts]
    asked = Artifact(ArtifactKind.TURN, "Let me look at it myself.", meta={"role": "user"})
    run = Episode("ahead", "r", Outcome("success"), [*said, asked], body_hash=b"1")
    await store.episodes.append(run)
    listed = (
        await store.memories.list(MemoryFilter(repos=("r",), kinds=("turn",)), limit=20)
    ).entries
    places = await store.search.places(
        await store.search.view(HERE), [ItemId(entry.id) for entry in listed]
    )
    told = {entry.content: places[ItemId(entry.id)].announces_step for entry in listed}
    assert told == {**texts, asked.content: False}


async def test_of_a_run_a_memory_query_prefers_what_it_asks_for(store: Store) -> None:
    steps = [
        ("user", "The mail jobs are run twice when a worker of the mail queue pauses for long."),
        (
            "assistant",
            "Mail jobs are run twice because the mail queue never asks who holds a lease.",
        ),
        ("tool", "$ grep -rn lease mail\nmail/queue.py:12: lease = 30  # mail jobs run twice"),
        ("assistant", "Let me look at the mail queue and why its jobs are run twice"),
    ]
    said = [Artifact(ArtifactKind.TURN, text, meta={"role": role}) for role, text in steps]
    talk = [a for a in said if a.meta["role"] != "tool"]
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=4)
    await store.episodes.append(Episode("run", "r", Outcome("success"), said, body_hash=b"1"))
    found = await query(store, "why are the mail jobs run twice", None, options)
    assert found[0].entry.content == steps[1][1]
    ranks = [m.entry.content for m in found]
    # Without a tool it is a conversation, in which what comes first and last is as good.
    await store.episodes.append(Episode("talk", "r2", Outcome("success"), talk, body_hash=b"2"))
    options = MemoryQueryOptions(MemoryFilter(repos=("r2",)), top_k=4)
    spoken = await query(store, "why are the mail jobs run twice", None, options)
    scores = {m.entry.content: m.score for m in spoken}
    in_run = {m.entry.content: m.score for m in found}
    assert set(scores) == {a.content for a in talk} < set(ranks)
    for n in (0, 3):
        assert in_run[steps[n][1]] / in_run[steps[1][1]] < scores[steps[n][1]] / scores[steps[1][1]]


async def test_steps_of_a_run_are_found_by_what_it_came_to(store: Store) -> None:
    step = Artifact(ArtifactKind.TURN, "$ python --version\nPython 3.9.18", meta={"role": "tool"})
    came = Outcome("success", "the importer closes its files")
    await store.episodes.append(Episode("e1", "r", came, [step], body_hash=b"1"))
    await store.episodes.append(Episode("e2", "r", Outcome("success"), [step], body_hash=b"2"))
    waiting = {one.text: one.content_hash for one in await waiting_texts(store, "r", 10)}
    assert set(waiting) == {
        "\nthe importer closes its files\n$ python --version\nPython 3.9.18",
        "\n$ python --version\nPython 3.9.18",
    }
    assert len(set(waiting.values())) == 2
    view = await store.search.view(HERE)
    (found,) = await store.search.lexical(view, query_terms("version for importers"), HERE, 1)
    (item,) = (await store.search.fetch(view, [found.id])).values()
    assert item.content == step.content
    (best, other) = await store.search.lexical(view, query_terms("importer version"), HERE, 5)
    assert best.score > other.score


@pytest.mark.parametrize(("chars", "here"), [(200, True), (300_000, False)])
async def test_long_runs_are_read_outside_of_the_loop(store: Store, chars: int, here: bool) -> None:
    threads_: set[threading.Thread] = set()
    given = rules()

    def seen(numbered: NumberedEpisode) -> PreparedEpisode:
        threads_.add(threading.current_thread())
        return given.prepare(numbered)

    episodes = Episodes(store.app, store.merger, replace(given, prepare=seen))
    said = [Artifact(ArtifactKind.TURN, "yes it is so " * (chars // 13), meta={"role": "user"})]
    await episodes.append(Episode("e1", "r", Outcome("success"), said, body_hash=b"1"))
    assert (threads_ == {threading.current_thread()}) == here


async def test_what_a_run_came_to_goes_with_it_and_is_looked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words stand in the text index of each item: forgetting the run proves that they are gone."""
    said = [Artifact(ArtifactKind.TURN, "it leaks"), Artifact(ArtifactKind.PLAN, "look first")]
    came = Outcome("success", "the zanzibar importer closes")
    kept = await store.episodes.append(Episode("e1", "r", came, said, body_hash=b"1"))
    told: list[tuple[str, ...]] = []
    find = traces.distinctive

    async def seen(*args: Any) -> tuple[str, ...]:
        told.append(await find(*args))
        return told[-1]

    monkeypatch.setattr(traces, "distinctive", seen)
    for id_ in (kept.item_ids[0], kept.episode_id):
        receipt = await store.forgetting.forget(TENANT, "r", Selector(ids=(id_,)), dry_run=False)
        assert not any(receipt.left.values())
    turn, run = told
    assert "zanzibar" in run
    assert "zanzibar" not in turn, "the run stays, and says it"
    view = await store.search.view(HERE)
    assert await store.search.lexical(view, ["zanzibar"], replace(HERE, collections=()), 5) == []
