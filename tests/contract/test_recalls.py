"""Receipts and feedback on every PostgreSQL: kept, attributed, bounded, repeated, collected, walled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from plait.domain.errors import RecallUnknown, RequestForgotten, RequestIdReused
from plait.domain.ids import new_item_ids
from plait.domain.memory import AsOf
from plait.domain.recall import (
    Evidence,
    Feedback,
    FeedbackReceipt,
    ItemVerdict,
    RecallId,
    Receipt,
    Verdict,
)
from plait.domain.retention import Selector
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, ItemId, Outcome
from plait.ports import View
from plait.retrieval.ranking.weights import DEFAULT
from tests.contract.conftest import IndexFiles
from tests.processes import LIMIT_S
from vector.connection import locks
from vector.store import Store

T = "default"
FILES = {"a.toy": ("one: two", "two:", "three:"), "test_a.toy": ("test_one: one", "test_two: two")}
ALL = tuple(Collection)
EVERYTHING = Filter(repos=("r",), collections=ALL)


async def seen(store: Store, where: Filter = EVERYTHING) -> View:
    return await store.search.view(where)


async def items_of(store: Store, n: int = 3) -> list[ItemId]:
    view = await seen(store)
    found = await store.search.lexical(view, ["one", "two", "three"], EVERYTHING, 10)
    return [candidate.id for candidate in found][:n]


def receipt(view: View, ids: Sequence[ItemId], **more: Any) -> Receipt:
    given: dict[str, Any] = {
        "id": RecallId(UUID(int=new_item_ids(1)[0].int)),
        "tenant": view.tenant,
        "repos": tuple(r.repo for r in view.revisions),
        "session_key": "s",
        "agent_id": "a",
        "request": {"query": {"text": "q"}, "options": {}},
        "revisions": {r.repo: r.number for r in view.revisions},
        "at": view.valid or datetime.now(UTC),
        "items": tuple((id_, 1.0 / n) for n, id_ in enumerate(ids, 1)),
    }
    return Receipt(**{**given, **more})


async def kept(store: Store, ids: Sequence[ItemId], **more: Any) -> Receipt:
    made = receipt(await seen(store), ids, **more)
    assert await store.recalls.keep_receipt(made)
    return made


def said(
    of: Receipt, request: str = "", outcome: str = "", proof: tuple[str, ...] = (), **verdicts: Any
) -> Feedback:
    """`helped`, `harmed`, `unused`: items."""
    return Feedback(
        request or str(uuid4()),
        b"body",
        of.id,
        [ItemVerdict(id_, Verdict(word)) for word, ids in verdicts.items() for id_ in ids],
        Outcome(outcome) if outcome else None,
        proof,
        of.tenant,
    )


async def evidence(store: Store, ids: Sequence[ItemId]) -> dict[ItemId, Evidence]:
    return dict(await store.recalls.evidence(await seen(store), ids))


@pytest.fixture
async def ids(store: Store, index: IndexFiles) -> list[ItemId]:
    await index(store, "r", FILES)
    return await items_of(store)


# -- receipts --------------------------------------------------------------------------------------------


async def test_a_receipt_comes_back_as_it_was(store: Store, ids: list[ItemId]) -> None:
    view = await seen(store)
    made = receipt(
        view, ids, shown=tuple(ids[:1]), tokens=7, digest=b"d" * 16, complete=False,
        repo_ids=tuple(r.repo_id for r in view.revisions),
    )  # fmt: skip
    assert await store.recalls.keep_receipt(made)
    back = await store.recalls.receipt(T, made.id)
    assert [id_ for id_, _ in back.items] == ids
    assert [score for _, score in back.items] == pytest.approx([1, 1 / 2, 1 / 3])
    assert replace(back, items=made.items) == made


async def test_a_receipt_that_is_sent_again_is_one(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    assert await store.recalls.keep_receipt(made)


async def test_hostile_text_in_a_receipt_is_kept_as_far_as_it_is_text(
    store: Store, ids: list[ItemId]
) -> None:
    made = await kept(
        store,
        ids,
        session_key="s\0",
        request={"query": {"text": "a\0b\ud800'; DROP TABLE recall --"}},
    )
    back = await store.recalls.receipt(T, made.id)
    assert back.request == {"query": {"text": "ab'; DROP TABLE recall --"}}
    assert await store.recalls.shown(T, (), "s", datetime.now(UTC) - timedelta(hours=1)) == set(ids)


async def test_what_is_not_there_is_not_known(store: Store, ids: list[ItemId]) -> None:
    with pytest.raises(RecallUnknown, match="recall_id"):
        await store.recalls.receipt(T, RecallId(uuid4()))
    made = await kept(store, ids)
    with pytest.raises(RecallUnknown):
        await store.recalls.receipt("acme", made.id)
    with pytest.raises(RecallUnknown):
        await store.recalls.report(replace(said(made, helped=ids), tenant="acme"))


async def test_a_recall_that_read_nothing_has_no_receipt(store: Store) -> None:
    made = receipt(View((), "", 0, T), [])
    assert not await store.recalls.keep_receipt(made)


async def test_a_write_during_a_recall_is_told(store: Store, ids: list[ItemId]) -> None:
    view = await seen(store)
    assert await store.recalls.keep_receipt(before := receipt(view, ids))
    await store.episodes.append(note("r", "came between"))
    assert await store.recalls.keep_receipt(after := receipt(view, ids))
    assert (await store.recalls.receipt(T, before.id)).complete
    assert not (await store.recalls.receipt(T, after.id)).complete


async def test_a_session_was_shown_what_its_recalls_held(
    store: Store, ids: list[ItemId], index: IndexFiles
) -> None:
    await index(store, "other", FILES)
    await kept(store, ids[:1])
    await kept(store, ids[1:2])
    await kept(store, ids[2:], session_key="elsewhere")
    since = datetime.now(UTC) - timedelta(hours=1)
    assert await store.recalls.shown(T, ("r",), "s", since) == set(ids[:2])
    assert await store.recalls.shown(T, (), "s", since) == set(ids[:2])
    assert await store.recalls.shown(T, ("other",), "s", since) == set()
    assert await store.recalls.shown(T, ("r",), "", since) == set()
    assert await store.recalls.shown("acme", ("r",), "s", since) == set()
    assert (
        await store.recalls.shown(T, ("r",), "s", datetime.now(UTC) + timedelta(hours=1)) == set()
    )


# -- feedback --------------------------------------------------------------------------------------------


async def test_verdicts_become_evidence(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    stranger = ItemId(uuid4())
    got = await store.recalls.report(
        said(made, helped=[ids[0], stranger], harmed=[ids[1]], unused=[ids[2]])
    )
    assert got == FeedbackReceipt(3, (stranger,), 0, 0)
    found = await evidence(store, [*ids, stranger])
    assert found[ids[0]].helped == pytest.approx(1.0, abs=1e-4)
    assert found[ids[0]].harmed == 0.0
    assert found[ids[1]].harmed == pytest.approx(1.0, abs=1e-4)
    assert found[ids[2]].helped == 0.0
    assert 0.0 < found[ids[2]].harmed < 0.2  # took a place, no more
    assert stranger not in found


async def test_an_outcome_alone_is_spread_by_score(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    got = await store.recalls.report(said(made, outcome="success"))
    assert (got.accepted, got.attributed) == (0, 3)
    found = await evidence(store, ids)
    total = sum(one.helped for one in found.values())
    assert total == pytest.approx(DEFAULT.feedback.success * DEFAULT.feedback.unproven, rel=1e-3)
    assert found[ids[0]].helped == pytest.approx(2 * found[ids[1]].helped, rel=1e-3)
    # A failure is told later: the last outcome counts, once.
    await store.recalls.report(said(made, outcome="failure"))
    found = await evidence(store, ids)
    assert all(one.helped == 0.0 < one.harmed for one in found.values())


async def test_a_recall_counts_once_and_a_verdict_stands(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    for _ in range(5):
        await store.recalls.report(said(made, helped=ids[:1]))
    assert (await evidence(store, ids))[ids[0]].helped == pytest.approx(1.0, abs=1e-4)
    got = await store.recalls.report(said(made, outcome="failure"))
    assert got.attributed == 2
    found = await evidence(store, ids)
    assert found[ids[0]].helped == pytest.approx(1.0, abs=1e-4)
    assert found[ids[0]].harmed == 0.0
    await store.recalls.report(said(made, harmed=ids[:1]))
    found = await evidence(store, ids)
    assert found[ids[0]].helped == 0.0
    assert found[ids[0]].harmed == pytest.approx(1.0, abs=1e-4)


async def test_one_source_is_capped_and_others_add(store: Store, ids: list[ItemId]) -> None:
    for _ in range(6):
        await store.recalls.report(said(await kept(store, ids), helped=ids[:1]))
    assert (await evidence(store, ids))[ids[0]].helped == pytest.approx(
        DEFAULT.feedback.source_cap, abs=1e-3
    )
    await store.recalls.report(said(await kept(store, ids, session_key="t"), helped=ids[:1]))
    assert (await evidence(store, ids))[ids[0]].helped == pytest.approx(
        DEFAULT.feedback.source_cap + 1, abs=1e-3
    )


async def test_feedback_fades_by_its_half_life(
    store: Store, ids: list[ItemId], truth_dsn: str
) -> None:
    await store.recalls.report(said(await kept(store, ids), helped=ids[:1]))
    half_life = store.app.settings.recall.feedback_half_life_days
    for halvings in (1, 2):
        ago(truth_dsn, "feedback_item", "recorded_at", half_life * 86_400)
        found = await evidence(store, ids)
        assert found[ids[0]].helped == pytest.approx(0.5**halvings, rel=1e-3)
    ago(truth_dsn, "feedback_item", "recorded_at", 86_400 * 365 * 2000)
    assert (await evidence(store, ids))[ids[0]].helped == pytest.approx(0.0, abs=1e-9)


async def test_evidence_is_as_of_the_views_time(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    before = (await seen(store)).valid
    await store.recalls.report(said(made, helped=ids[:1]))
    between = (await seen(store)).valid
    await store.recalls.report(said(made, harmed=ids[:1]))

    async def then(at: datetime | None) -> dict[ItemId, Evidence]:
        view = await seen(store, replace(EVERYTHING, as_of=AsOf(recorded=at)))
        return dict(await store.recalls.evidence(view, ids))

    assert await then(before) == {}
    assert (await then(between))[ids[0]].helped == pytest.approx(1.0, abs=1e-4)
    assert (await then(between))[ids[0]].harmed == 0.0
    assert (await then(None))[ids[0]].helped == 0.0


async def test_a_repeated_report_gets_the_first_answer(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    report = said(made, "once", helped=ids[:1], outcome="success")
    first = await store.recalls.report(report)
    again = await store.recalls.report(report)
    assert again == replace(first, repeated=True)
    with pytest.raises(RequestIdReused):
        await store.recalls.report(replace(report, body_hash=b"other"))


async def test_reports_at_the_same_moment_count_once(store: Store, ids: list[ItemId]) -> None:
    made = await kept(store, ids)
    one = said(made, "same", helped=ids[:1])
    others = [said(made, harmed=ids[:1]) for _ in range(4)]
    got = await asyncio.gather(*(store.recalls.report(r) for r in [one, one, one, *others]))
    assert sum(not r.repeated for r in got[:3]) == 1
    found = await evidence(store, ids)
    assert found[ids[0]].helped + found[ids[0]].harmed == pytest.approx(1.0, abs=1e-3)


# -- links -----------------------------------------------------------------------------------------------


def note(repo: str, text: str) -> Episode:
    return Episode(
        str(uuid4()), repo, Outcome("success"), [Artifact(ArtifactKind.NOTE, text),
        Artifact(ArtifactKind.PLAN, f"plan: {text}")], body_hash=b"h",
    )  # fmt: skip


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, options="-c search_path=plait") as conn:
        return conn.execute(query).fetchall()


def ago(dsn: str, table: str, column: str, seconds: float) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute(
            f"UPDATE {table} SET {column} = {column} - make_interval(secs => %s)", (seconds,)
        )


LINKS = """
SELECT source, target FROM memory_edge WHERE relation = 'VALIDATED_BY' AND resolver = 'feedback'
   AND recorded_to IS NULL ORDER BY source, target
"""


async def test_a_proven_success_links_what_helped_to_its_tests(
    store: Store, ids: list[ItemId], truth_dsn: str
) -> None:
    episode = await store.episodes.append(note("r", "call one before two"))
    memory, plan = episode.item_ids
    made = await kept(store, [*ids, memory, plan])
    proof = ("test_a.toy::nothing", "test_a.test_one", "unknown_test", "x" * 500)
    unproven = await store.recalls.report(said(made, helped=[memory], outcome="success"))
    assert unproven.links == 0
    failed = await store.recalls.report(said(made, helped=[memory], outcome="failure", proof=proof))
    assert failed.links == 0
    got = await store.recalls.report(
        said(made, helped=[ids[0], memory, plan], outcome="success", proof=proof)
    )
    assert got.links == 2
    ((entry,),) = rows(truth_dsn, f"SELECT entry_id FROM memories WHERE id = '{memory}'")
    assert rows(truth_dsn, LINKS) == sorted(
        [
            (f"memory/{entry}", "test_a.test_one"),
            (f"episode/{episode.episode_id}", "test_a.test_one"),
        ]
    )
    # Said again by another recall it is the same link.
    again = await kept(store, [memory])
    assert (
        await store.recalls.report(said(again, helped=[memory], outcome="success", proof=proof))
    ).links == 0


async def test_the_graph_is_told_of_links(store: Store, ids: list[ItemId], truth_dsn: str) -> None:
    episode = await store.episodes.append(note("r", "call one before two"))
    memory, plan = episode.item_ids
    made = await kept(store, [memory, plan])
    ((last,),) = rows(truth_dsn, "SELECT max(id) FROM outbox")
    await store.recalls.report(
        said(made, helped=[memory, plan], outcome="success", proof=("test_a.test_two",))
    )
    queued = rows(truth_dsn, f"SELECT kind FROM outbox WHERE id > {last} ORDER BY kind")
    assert queued == [("episode",), ("memory",)]


# -- what goes -------------------------------------------------------------------------------------------


async def test_old_receipts_are_collected_and_feedback_stays_while_it_weighs(
    store: Store, ids: list[ItemId], truth_dsn: str
) -> None:
    old = await kept(store, ids)
    report = said(old, "r1", helped=ids[:1])
    report = replace(report, verdicts=[replace(report.verdicts[0], comment="because")])
    await store.recalls.report(report)
    keep_s = store.app.settings.recall.keep_s
    ago(truth_dsn, "recall", "created_at", keep_s + 60)
    ago(truth_dsn, "feedback_item", "recorded_at", keep_s + 60)
    with pytest.raises(RecallUnknown):  # before it is collected, too
        await store.recalls.receipt(T, old.id)
    new = await kept(store, ids)
    assert await store.recalls.collect() == {
        "recall": 1, "comments": 1, "feedback_item": 0, "feedback": 0,
    }  # fmt: skip
    assert (await store.recalls.receipt(T, new.id)).id == new.id
    assert rows(truth_dsn, "SELECT comment FROM feedback_item") == [("",)]
    assert (await evidence(store, ids))[ids[0]].helped > 0.5
    assert (await store.recalls.report(report)).repeated  # its answer is known longer
    ago(truth_dsn, "feedback_item", "recorded_at", 86_400 * 365)
    ago(truth_dsn, "feedback", "created_at", 86_400 * 365)
    assert await store.recalls.collect() == {
        "recall": 0, "comments": 0, "feedback_item": 1, "feedback": 1,
    }  # fmt: skip
    assert await evidence(store, ids) == {}


async def test_a_deleted_repository_takes_its_recalls(
    store: Store, ids: list[ItemId], truth_dsn: str, index: IndexFiles
) -> None:
    await index(store, "other", FILES)
    both = receipt(await store.search.view(Filter(repos=("r", "other"))), ids)
    assert await store.recalls.keep_receipt(both)
    mine = await kept(store, ids)
    await store.recalls.report(said(mine, helped=ids))
    await store.repositories.delete("r")
    for table in ("recall", "feedback", "feedback_item"):
        assert rows(truth_dsn, f"SELECT count(*) FROM {table}") == [(0,)]


MARK = "zanzibarquux"


def dump(dsn: str) -> dict[str, str]:
    """Every table of recalls as text."""
    tables = ("recall", "feedback", "feedback_item")
    return {t: str(rows(dsn, f"SELECT x::text FROM {t} x")).lower() for t in tables}


async def test_forgetting_reaches_receipts_and_what_was_said_of_them(
    store: Store, ids: list[ItemId], truth_dsn: str, index: IndexFiles
) -> None:
    await index(store, "other", FILES)
    episode = await store.episodes.append(note("r", f"{MARK} is the word"))
    memory = episode.item_ids[0]
    stays = await kept(store, ids)
    await store.recalls.report(said(stays, helped=ids))
    showed = await kept(store, [memory, *ids])
    asked = await kept(store, ids, request={"query": {"text": f"Where is\n{MARK.upper()}?"}})
    hid = await kept(store, ids, shown=(memory,))
    wide = receipt(await store.search.view(Filter(repos=("other", "r"), collections=ALL)), [memory])
    assert await store.recalls.keep_receipt(wide)
    named = await kept(store, ids, session_key=f"about {MARK}")
    reports = [said(showed, "r1", helped=[memory, *ids]), said(named, "r2", harmed=ids)]
    for one in reports:
        await store.recalls.report(one)
    comment = ItemVerdict(ids[0], Verdict.HELPED, f"told of {MARK}")
    await store.recalls.report(
        replace(said(hid, "r3", proof=(f"test_{MARK}",)), verdicts=[comment])
    )
    told = await store.forgetting.forget(T, "r", Selector(ids=(episode.episode_id,)), dry_run=False)
    assert not any(told.left.values())
    assert told.removed["recall"] == 5
    for table, text in dump(truth_dsn).items():
        assert MARK not in text, table
        assert str(memory) not in text, table
    for gone in (showed, asked, hid, wide, named):
        with pytest.raises(RecallUnknown):
            await store.recalls.receipt(T, gone.id)
    assert (await store.recalls.receipt(T, stays.id)).items
    with pytest.raises(RequestForgotten):
        await store.recalls.report(reports[0])
    # What others said of code stays: their three verdicts, and of the report that named the memory.
    assert (await evidence(store, ids))[ids[0]].helped == pytest.approx(
        DEFAULT.feedback.source_cap, abs=1e-3
    )


async def test_no_receipt_of_what_went_while_it_was_read(store: Store, index: IndexFiles) -> None:
    """`forget` takes its time at its begin: who reads before it is committed has a later one."""
    await index(store, "r", FILES)
    episode = await store.episodes.append(note("r", "one two three"))
    view = await seen(store)
    plans = Filter(repos=("r",), collections=(Collection.PLANS,))
    ids = [c.id for c in await store.search.lexical(view, ["one", "two", "three"], plans, 5)]
    assert ids
    stays = await items_of(store, 1)
    await store.forgetting.forget(T, "r", Selector(ids=(episode.episode_id,)), dry_run=False)
    later = await seen(store)
    assert not await store.recalls.keep_receipt(receipt(later, [*stays, *ids]))
    assert not await store.recalls.keep_receipt(receipt(later, stays, shown=tuple(ids)))
    assert await store.recalls.keep_receipt(receipt(later, stays))
    await store.repositories.delete("r", T)
    assert not await store.recalls.keep_receipt(receipt(later, stays, at=datetime.now(UTC)))


async def test_a_repository_that_is_being_removed_keeps_no_receipt(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", FILES)
    (repo,) = [r.repo_id for r in (await seen(store)).revisions]
    async with asyncio.timeout(LIMIT_S):
        with psycopg.connect(truth_dsn) as conn:  # as a receipt that is being kept
            conn.execute("SELECT pg_advisory_xact_lock_shared(%s, %s)", (locks.RECALLING, repo))
            removing = asyncio.create_task(store.repositories.delete("r", T))
            await asyncio.sleep(0.5)
            assert not removing.done(), "it waits, to see that receipt"
        await removing


async def test_no_receipt_of_what_was_forgotten_meanwhile(
    store: Store, ids: list[ItemId], truth_dsn: str
) -> None:
    episode = await store.episodes.append(note("r", f"{MARK} is the word"))
    late = receipt(await seen(store), [episode.item_ids[0]])
    view = await seen(store)
    ((repo_id,),) = rows(truth_dsn, "SELECT id FROM repository WHERE name = 'r'")
    with psycopg.connect(truth_dsn) as conn:  # as `forget` does before it is committed
        conn.execute("SELECT pg_advisory_xact_lock(%s, %s)", (locks.RECALLING, repo_id))
        assert not await store.recalls.keep_receipt(receipt(view, ids))
    assert await store.recalls.keep_receipt(receipt(view, ids))
    await store.forgetting.forget(T, "r", Selector(ids=(episode.episode_id,)), dry_run=False)
    assert not await store.recalls.keep_receipt(late)
    assert await store.recalls.keep_receipt(receipt(await seen(store), ids))


async def test_keeping_a_receipt_is_one_short_statement(store: Store, ids: list[ItemId]) -> None:
    """A figure to look at, not a bar: printed with -s."""
    took = []
    for _ in range(30):
        view = await seen(store)
        made = receipt(view, ids, repo_ids=tuple(r.repo_id for r in view.revisions))
        start = time.perf_counter()
        assert await store.recalls.keep_receipt(made)
        took.append((time.perf_counter() - start) * 1e3)
    print(f"keep_receipt p50 {sorted(took)[15]:.2f} ms")
