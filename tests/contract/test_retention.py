"""RetentionStore's promises and the compaction service on every PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from msgspec import structs

from plait.domain import failpoint
from plait.domain.errors import (
    CompactionUnknown,
    StoreContended,
    StoreUnavailable,
    UndoExpired,
)
from plait.domain.failpoint import Failpoint
from plait.domain.memory import (
    NO_ID,
    NOW,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
)
from plait.domain.retention import Action, Budget, Compaction, Selector, Summary, Usage
from plait.domain.scope import Scope
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from plait.memory import compact as service
from plait.memory.entry import check
from plait.memory.summarize import Extractive
from plait.settings import MemorySettings
from plait.text.tokenize import tokens
from tests.memory_queries import query
from vector.connection.migrate import migrations
from vector.store import Store

T = "default"
SCOPE = Scope(T, "r", "a")
SMALL = MemorySettings(budget_tokens=1000, summary_tokens=60, pin_recent=1)
ALL = (Collection.MEMORIES,)


async def remember(
    store: Store, text: str, *, repo: str = "r", agent: str = "a", tenant: str = T, **more: Any
) -> MemoryEntry:
    meta = MemoryMetadata(
        session_key=more.pop("session", ""),
        tags=more.pop("tags", ()),
        importance=more.pop("importance", 0.5),
    )
    entry = MemoryEntry(NO_ID, repo, agent, text, meta, **more)
    (receipt,) = await store.memories.store(tenant, [check(entry, str(uuid4()))])
    assert isinstance(receipt, MemoryReceipt)
    return receipt.entry


async def fill(store: Store, n: int = 24, **more: Any) -> list[MemoryEntry]:
    """Some 60 tokens each, of four sessions."""
    return [
        await remember(
            store,
            f"Step {i}: module_{i}.py raised KeyError number {i} because the cache of part {i} was "
            f"cold. Decided to warm cache_{i} first. The run of suite {i} took {i}00 seconds.",
            session=f"s{i % 4}",
            **more,
        )
        for i in range(n)
    ]


async def compact(store: Store, scope: Scope = SCOPE, **more: Any) -> Compaction:
    return await service.compact(store.retention, Extractive(), scope, SMALL, **more)


async def living(store: Store, as_of: AsOf = NOW) -> dict[UUID, MemoryEntry]:
    page = await store.memories.list(MemoryFilter(repos=("r",)), limit=1000, as_of=as_of)
    return {entry.id: entry for entry in page.entries}


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, options="-c search_path=plait") as conn:
        return conn.execute(query.encode()).fetchall()


async def test_living_and_usage_are_of_one_agent_and_of_now(store: Store) -> None:
    now = datetime.now(UTC)
    here = await remember(store, "alive and well")
    await remember(store, "of another agent", agent="b")
    await remember(store, "of no agent", agent="")
    await remember(store, "of another tenant", tenant="other", repo="other@r")
    await remember(store, "ended", valid_to=now - timedelta(days=1))
    await remember(store, "not yet", valid_from=now + timedelta(days=1))
    gone = await remember(store, "deleted again")
    await store.memories.delete(T, "r", gone.id)
    (found,) = await store.retention.living(SCOPE)
    assert found == replace(here, embedding=found.embedding)
    usage = await store.retention.usage(T)
    stored = Budget.STORED
    assert usage.keys() == {("r", "a", stored), ("r", "b", stored), ("r", "", stored)}
    assert usage["r", "a", stored] == Usage(here.tokens, 1)
    assert await store.retention.usage(T, "r", "a") == {("r", "a", stored): Usage(here.tokens, 1)}
    assert await service.used(store.retention, Scope(T, "r", "nobody")) == 0
    assert [e.agent_id for e in await store.retention.living(Scope(T, "r"))] == [""]
    assert (await store.retention.usage("other")).keys() == {("other@r", "a", stored)}


async def test_living_has_the_vectors(store: Store) -> None:
    await store.vectors.ensure_space("m", 2)
    await remember(store, "with a vector", embedding=(0.6, 0.8))
    (found,) = await store.retention.living(SCOPE)
    assert found.embedding == pytest.approx((0.6, 0.8), abs=1e-3)


async def test_a_dry_run_changes_nothing_and_names_what_the_run_does(
    store: Store, truth_dsn: str
) -> None:
    await fill(store)
    before = rows(truth_dsn, "SELECT * FROM memories ORDER BY id")
    dry = await compact(store, dry_run=True)
    assert dry.id == service.NOTHING
    assert dry.plan.summaries
    assert all(step.reason for step in dry.plan.steps)
    assert rows(truth_dsn, "SELECT * FROM memories ORDER BY id") == before
    assert rows(truth_dsn, "SELECT * FROM compaction") == []
    done = await compact(store)
    assert [s.id for s in done.plan.summaries] == [s.id for s in dry.plan.summaries]


async def test_sources_are_closed_and_linked_and_the_budget_is_met(
    store: Store, truth_dsn: str
) -> None:
    entries = await fill(store)
    assert await service.over_budget(store.retention, SCOPE, SMALL)
    done = await compact(store)
    assert not await service.over_budget(store.retention, SCOPE, SMALL)
    assert done.plan.tokens_before == sum(e.tokens for e in entries)
    assert await service.used(store.retention, SCOPE) == done.plan.tokens_after <= 600
    now = await living(store)
    closed = {s.entry_id: s.into for s in done.plan.closed}
    assert now.keys() == {e.id for e in entries} - closed.keys() | {
        s.id for s in done.plan.summaries
    }
    # Not a row is gone: the entries still have their text.
    assert rows(truth_dsn, "SELECT count(*) FROM memories WHERE kind = 'memory'") == [(24,)]
    edges = rows(
        truth_dsn, "SELECT source, target FROM memory_edge WHERE relation = 'DERIVED_FROM'"
    )
    assert set(edges) == {(f"memory/{into}", f"memory/{id_}") for id_, into in closed.items()}
    by = rows(
        truth_dsn, "SELECT entry_id, superseded_by FROM memories WHERE superseded_at IS NOT NULL"
    )
    assert dict(by) == closed
    events = rows(
        truth_dsn, "SELECT entries FROM outbox WHERE kind = 'memory' ORDER BY id DESC LIMIT 1"
    )
    assert set(events[0][0]) == closed.keys() | {s.id for s in done.plan.summaries}


async def test_summaries_are_found_before_their_sources_and_those_word_for_word(
    store: Store,
) -> None:
    sources = await fill(store)
    done = await compact(store)
    into = {s.entry_id: s.into for s in done.plan.closed if s.into}
    closed = [entry for entry in sources if entry.id in into]
    assert len(closed) > 10
    for entry in closed[:8]:
        options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=50)
        ranks = {m.entry.id: m for m in await query(store, entry.content, None, options)}
        assert ranks[entry.id].entry.content == entry.content
        assert ranks[entry.id].entry.superseded_by == into[entry.id]
        order = list(ranks)
        assert order.index(entry.id) <= 3
        assert order.index(into[entry.id]) < order.index(entry.id)
    for summary in done.plan.summaries:
        found = await store.memories.get(T, "r", summary.id)
        assert found.kind == "summary"
        assert found.metadata.source == "system"
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=50)
    matches = await query(store, "KeyError cache cold", None, options)
    assert matches[0].entry.id in await living(store)
    assert {m.entry.kind for m in matches} >= {"summary"}


async def test_a_pasted_passage_finds_the_turn_that_it_is_from(store: Store) -> None:
    lines = [f"    value_{n} = read(source, {n})  # part {n} of the header" for n in range(40)]
    texts = ["$ sed -n\n" + "\n".join(lines[at : at + 12]) for at in range(28)]
    turns = [Artifact(ArtifactKind.TURN, text, meta={"role": "tool"}) for text in texts]
    await store.episodes.append(
        Episode("e", "r", Outcome("unknown"), turns, "a", "s", body_hash=b"h")
    )
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=10)
    for at in (3, 14, 25):
        (best, *_) = await query(store, texts[at][:400], None, options)
        assert best.entry.content == texts[at]


async def test_what_compaction_closed_is_seen_as_of_each_time_as_it_was_then(store: Store) -> None:
    sources = await fill(store)
    done = await compact(store)
    await store.retention.undo(T, done.id)
    entry = next(e for e in sources if e.id in {s.entry_id for s in done.plan.closed})
    where = MemoryFilter(repos=("r",))

    async def seen(recorded: datetime | None) -> list[MemoryEntry]:
        options = MemoryQueryOptions(where, top_k=100, as_of=AsOf(recorded=recorded))
        matches = await query(store, entry.content, None, options)
        return [m.entry for m in matches if m.entry.id == entry.id]

    assert [e.superseded_at for e in await seen(done.at - timedelta(microseconds=1))] == [None]
    assert [e.superseded_at for e in await seen(done.at)] == [done.at]
    assert [(e.superseded_at, e.version) for e in await seen(None)] == [(None, 2)]


async def test_search_finds_what_was_closed_and_says_what_stands_for_it(store: Store) -> None:
    sources = await fill(store)
    done = await compact(store)
    step = next(s for s in done.plan.closed if s.action is Action.SUMMARIZE)
    entry = next(e for e in sources if e.id == step.entry_id)
    where = Filter(repos=("r",), collections=ALL)
    view = await store.search.view(where)
    found = await store.search.lexical(view, tokens(entry.content), where, 50)
    items = await store.search.fetch(view, [c.id for c in found])
    (hit,) = (id_ for id_, item in items.items() if item.content == entry.content)
    item_states = (await store.search.item_states(view, [hit]))[hit]
    assert (item_states.compacted, item_states.replaced_by) == (True, step.into)


async def test_a_duplicate_of_the_same_words_is_not_found_twice(store: Store) -> None:
    first = await remember(store, "Warm the cache before the run.", session="one")
    second = await remember(store, "Warm the cache before the run.", session="two")
    done = await compact(store)
    assert len(done.plan.closed) == 1
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=10)
    matches = await query(store, "Warm the cache", None, options)
    assert len(matches) == 1
    assert matches[0].entry.id in {first.id, second.id}


async def test_what_is_forgotten_is_not_found_though_compaction_had_closed_it(store: Store) -> None:
    sources = await fill(store)
    done = await compact(store)
    entry = next(e for e in sources if e.id in {s.entry_id for s in done.plan.closed})
    await store.forgetting.forget(T, "r", Selector(ids=(entry.id,)), dry_run=False)
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=100)
    matches = await query(store, entry.content, None, options)
    assert matches
    assert entry.id not in {m.entry.id for m in matches}


async def test_what_an_earlier_version_closed_is_found_after_the_upgrade(
    store: Store, truth_dsn: str
) -> None:
    sources = await fill(store)
    done = await compact(store)
    undone = await compact(store, Scope(T, "r", "nobody"))
    assert undone.id == service.NOTHING
    migration = next(m for m in migrations() if m.name == "found_again")
    update = migration.body.partition("UPDATE memories m")[2].partition(";")[0]
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute("UPDATE memories SET kept_until = NULL")  # as an earlier version left it
        conn.execute(f"UPDATE memories m{update}".encode())
    closed = {s.entry_id for s in done.plan.closed}
    kept = rows(truth_dsn, "SELECT entry_id FROM memories WHERE kept_until IS NOT NULL")
    assert {id_ for (id_,) in kept} == closed
    entry = next(e for e in sources if e.id in closed)
    options = MemoryQueryOptions(MemoryFilter(repos=("r",)), top_k=50)
    found = await query(store, entry.content, None, options)
    assert entry.id in {m.entry.id for m in found}


async def test_as_of_before_it_the_sources_are_read_and_not_the_summaries(store: Store) -> None:
    await fill(store)
    before = await living(store)
    done = await compact(store)
    # To the letter: what was known then does not know that it ended since.
    assert await living(store, AsOf(recorded=done.at - timedelta(microseconds=1))) == before
    assert (await living(store, AsOf(recorded=done.at))).keys() == (await living(store)).keys()


async def test_undo_brings_everything_back_as_new_versions(store: Store, truth_dsn: str) -> None:
    entries = await fill(store)
    before = await living(store)
    links = "SELECT entry_id, relation, target FROM memory_edge WHERE recorded_to IS NULL"
    linked = set(rows(truth_dsn, f"{links} AND relation <> 'DERIVED_FROM'"))
    done = await compact(store)
    between = await living(store)
    back = await store.retention.undo(T, done.id)
    assert back == len(done.plan.closed)
    after = await living(store)
    assert after.keys() == before.keys() == {e.id for e in entries}
    for id_, entry in after.items():
        old = before[id_]
        grown = 1 if id_ not in between else 0
        assert entry.version == old.version + grown
        assert replace(entry, version=0, updated_at=None) == replace(
            old, version=0, updated_at=None
        )
    assert set(rows(truth_dsn, f"{links} AND relation <> 'DERIVED_FROM'")) == linked
    # What was known in between is still what was known in between.
    assert (await living(store, AsOf(recorded=done.at))).keys() == between.keys()
    found = await query(
        store, "module_3.py KeyError", None, MemoryQueryOptions(MemoryFilter(repos=("r",)))
    )
    assert found[0].entry.content.startswith("Step 3:")
    with pytest.raises(UndoExpired, match="was undone"):
        await store.retention.undo(T, done.id)
    # And the whole may be done again.
    again = await compact(store)
    assert not {s.id for s in again.plan.summaries} & {s.id for s in done.plan.summaries}


async def test_undo_has_a_window_and_a_tenant(store: Store) -> None:
    await fill(store)
    done = await compact(store, undo_s=0.0)
    with pytest.raises(UndoExpired, match="could be undone until"):
        await store.retention.undo(T, done.id)
    with pytest.raises(CompactionUnknown):
        await store.retention.undo("other", done.id)
    with pytest.raises(CompactionUnknown):
        await store.retention.undo(T, uuid4())


async def test_a_text_that_was_stored_again_is_not_brought_back_twice(store: Store) -> None:
    entries = await fill(store)
    done = await compact(store)
    closed = done.plan.closed[0].entry_id
    (text,) = [e for e in entries if e.id == closed]
    again = await remember(store, text.content, session=text.metadata.session_key)
    assert again.id != closed
    assert await store.retention.undo(T, done.id) == len(done.plan.closed) - 1
    assert closed not in await living(store)


async def test_summaries_are_summarized_again_and_undone_in_order(store: Store) -> None:
    await fill(store)
    first = await compact(store)
    await fill_more(store)
    second = await compact(store)
    assert {s.entry_id for s in second.plan.closed} & {s.id for s in first.plan.summaries}
    with pytest.raises(UndoExpired, match=str(second.id)):
        await store.retention.undo(T, first.id)
    await store.retention.undo(T, second.id)
    assert await store.retention.undo(T, first.id) == len(first.plan.closed)


async def fill_more(store: Store) -> None:
    for i in range(24):
        await remember(
            store,
            f"Later {i}: handler_{i} timed out after {i} tries, retried. " * 3,
            session=f"s{i % 4}",
        )


async def test_a_plan_that_was_overtaken_is_refused_whole(store: Store, truth_dsn: str) -> None:
    await fill(store)
    plan = (await compact(store, dry_run=True)).plan
    await store.memories.delete(T, "r", plan.closed[-1].entry_id)
    before = rows(truth_dsn, "SELECT * FROM memories ORDER BY id")
    with pytest.raises(StoreContended, match="changed since"):
        await store.retention.compact(T, plan, 60.0)
    assert rows(truth_dsn, "SELECT * FROM memories ORDER BY id") == before
    # The service plans again.
    assert (await compact(store)).plan.closed


async def test_two_compactions_at_once_close_each_memory_once(
    store: Store, other: Store, truth_dsn: str
) -> None:
    await fill(store)
    await asyncio.gather(compact(store), compact(other))
    twice = rows(
        truth_dsn,
        "SELECT entry_id FROM compaction_step WHERE into_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1",
    )
    assert twice == []


async def test_the_same_request_gets_the_same_compaction(store: Store, other: Store) -> None:
    await fill(store)
    one, two = await asyncio.gather(compact(store, request_id="q"), compact(other, request_id="q"))
    assert one.id == two.id
    await fill_more(store)
    three = await compact(store, request_id="q")
    assert three.id == one.id
    assert three.undo_until == one.undo_until
    assert [replace(s, into_version=0) for s in one.plan.steps] == [
        replace(s, into_version=0) for s in three.plan.steps
    ]
    assert {s.id: s.content for s in three.plan.summaries} == {
        s.id: s.content for s in one.plan.summaries
    }


async def test_duplicates_are_closed_with_what_they_say(store: Store) -> None:
    old = await remember(store, "Run the tests with -n 4!", session="one")
    new = await remember(store, "run the tests with -n 4", session="two")
    done = await compact(store)
    assert [(s.entry_id, s.into, s.action) for s in done.plan.closed] == [
        (old.id, new.id, Action.DEDUPLICATE)
    ]
    assert (await living(store)).keys() == {new.id}
    assert await store.retention.undo(T, done.id) == 1
    assert (await living(store)).keys() == {old.id, new.id}


def run_of(name: str, turns: int, *tests: Artifact, status: str = "unknown") -> Episode:
    """Some 80 tokens a turn."""
    texts = [
        Artifact(ArtifactKind.TURN, f"{name} {i}: looked at part_{i}.py and decided {i}. " * 6)
        for i in range(turns)
    ]
    outcome = Outcome(status)
    return Episode(name, "r", outcome, [*texts, *tests], "a", name, body_hash=name.encode())


async def test_an_imported_history_is_not_closed_by_default(store: Store) -> None:
    for n in range(3):
        await store.episodes.append(run_of(f"run-{n}", 20))
    auto = service.Automatic(store.retention, Extractive(), SMALL)
    assert await auto.after_write(SCOPE) is None
    forced = await compact(store)
    assert forced.plan.closed == ()
    usage = (await store.retention.usage(T, "r", "a"))["r", "a", Budget.RUNS]
    assert (usage.memories, usage.closed) == (60, 0)
    assert usage.tokens > SMALL.budget_tokens


RUNS = structs.replace(SMALL, run_budget_tokens=2000, pin_recent=0)


async def test_turns_of_episodes_are_compacted_and_stay_of_their_episode(
    store: Store, truth_dsn: str
) -> None:
    receipt = await store.episodes.append(run_of("e", 40))
    auto = service.Automatic(store.retention, Extractive(), RUNS)
    done = await auto.after_write(SCOPE)
    assert done is not None
    assert done.plan.budget is Budget.RUNS
    closed = {s.entry_id for s in done.plan.closed}
    assert closed
    assert closed <= set(receipt.item_ids)
    assert await auto.after_write(SCOPE) is None
    usage = (await store.retention.usage(T, "r", "a"))["r", "a", Budget.RUNS]
    assert usage.closed == len(closed)
    assert usage.tokens == done.plan.tokens_after  # its summaries are of the same budget
    targets = rows(
        truth_dsn, "SELECT DISTINCT target FROM memory_edge WHERE relation = 'DERIVED_FROM'"
    )
    assert (f"episode/{receipt.episode_id}",) in targets
    await store.retention.undo(T, done.id)
    alive = rows(
        truth_dsn,
        "SELECT DISTINCT episode_id FROM memories WHERE superseded_at IS NULL AND version = 2",
    )
    assert alive == [(receipt.episode_id,)]


async def test_what_was_recalled_is_closed_last_and_what_tests_validated_never(
    store: Store, truth_dsn: str
) -> None:
    passed = Artifact(
        ArtifactKind.TEST_RESULT, "1 passed", meta={"tests": [{"name": "t", "status": "passed"}]}
    )
    proven = await store.episodes.append(run_of("proven", 10, passed, status="success"))
    used = await store.episodes.append(run_of("used", 10))
    await store.episodes.append(run_of("idle", 20))
    shown = used.item_ids[3]
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        (repo_id,) = conn.execute("SELECT id FROM repository WHERE name = 'r'").fetchone() or (0,)
        conn.execute(
            "INSERT INTO recall (id, tenant, repo_id, repo_ids, at, item_ids)"
            " VALUES (%s, %s, %s, %s, now(), %s)",
            (uuid4(), T, repo_id, [repo_id], [shown]),
        )
    use = await store.retention.use(
        SCOPE, [MemoryId(i) for i in (*used.item_ids, *proven.item_ids[:10])]
    )
    assert use[MemoryId(shown)].recalls == 1
    assert all(use[MemoryId(i)].validated for i in proven.item_ids[:10])
    done = await service.compact(store.retention, Extractive(), SCOPE, RUNS, budget=Budget.RUNS)
    closed = {s.entry_id for s in done.plan.closed}
    assert closed
    assert shown not in closed
    assert not closed & set(proven.item_ids)


async def test_automatic_compaction_runs_when_due_and_not_in_vain(store: Store) -> None:
    auto = service.Automatic(store.retention, Extractive(), SMALL)
    await remember(store, "little")
    assert await auto.after_write(SCOPE) is None
    await fill(store)
    done = await auto.after_write(replace(SCOPE, session_key="s1"))
    assert done is not None
    assert done.plan.tokens_after <= 600
    assert await auto.after_write(SCOPE) is None
    off = service.Automatic(store.retention, Extractive(), structs.replace(SMALL, automatic=False))
    await fill_more(store)
    assert await off.after_write(SCOPE) is None


async def test_a_scope_that_is_all_pinned_is_not_planned_at_every_write(store: Store) -> None:
    await fill(store, pinned=True)
    auto = service.Automatic(store.retention, Extractive(), SMALL)
    first = await auto.after_write(SCOPE)
    assert first is not None
    assert first.id == service.NOTHING
    assert "pinned" in first.plan.notes[0]
    assert await auto.after_write(SCOPE) is None
    await remember(store, "one more " * 60, pinned=True)
    assert await auto.after_write(SCOPE) is not None


async def test_what_a_summarizer_could_not_do_is_kept_with_the_compaction(store: Store) -> None:
    class Broken(Extractive):
        async def summarize(self, entries: Sequence[MemoryEntry], budget_tokens: int) -> Summary:
            text = await super().summarize(entries, budget_tokens)
            return replace(text, degraded="the model did not answer; the summary is extractive")

    await fill(store)
    done = await service.compact(store.retention, Broken(), SCOPE, SMALL, request_id="q")
    assert done.plan.notes == ("the model did not answer; the summary is extractive",)
    known = await store.retention.compacted(T, "r", "q")
    assert known is not None
    assert known.plan.notes == done.plan.notes


async def test_search_of_the_collection_follows(store: Store) -> None:
    """BM25 over `memories` finds summaries and what undo brought back."""
    await fill(store)
    done = await compact(store)
    where = Filter(repos=("r",), collections=ALL)
    await store.retention.undo(T, done.id)
    view = await store.search.view(where)
    found = await store.search.lexical(view, ["module_5"], where, 10)
    items = await store.search.fetch(view, [c.id for c in found])
    assert any(item.content.startswith("Step 5:") for item in items.values())


async def test_what_breaks_before_the_commit_changes_nothing(store: Store, truth_dsn: str) -> None:
    await fill(store)
    before = rows(truth_dsn, "SELECT * FROM memories ORDER BY id")
    failpoint.arm((Failpoint("compact.before_commit", failpoint.Action.ERROR, onwards=True),))
    try:
        with pytest.raises(StoreUnavailable):
            await compact(store)
    finally:
        failpoint.arm(())
    assert rows(truth_dsn, "SELECT * FROM memories ORDER BY id") == before
    assert rows(truth_dsn, "SELECT * FROM compaction") == []
