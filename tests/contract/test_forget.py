"""Forgetting on every PostgreSQL: nothing of it is left, in any table, in search, at any time."""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

import graph
from etl.project import Projector
from plait.domain import failpoint
from plait.domain.deadline import Deadline
from plait.domain.errors import (
    InvalidInput,
    MemoryNotFound,
    RepositoryNotIndexed,
    RequestForgotten,
    RequestIdReused,
    StoreFull,
    StoreUnavailable,
    UndoExpired,
)
from plait.domain.failpoint import Action, Failpoint
from plait.domain.memory import (
    NO_ID,
    NOW,
    AsOf,
    MemoryEntry,
    MemoryFilter,
    MemoryMetadata,
    MemoryQueryOptions,
    MemoryReceipt,
    MemorySource,
)
from plait.domain.retention import ForgetReceipt, Selector
from plait.domain.scope import Scope
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Filter,
    Outcome,
)
from plait.memory import compact as service
from plait.memory.entry import check
from plait.memory.summarize import Extractive
from plait.ports import GraphStore
from plait.settings import MemorySettings, Settings
from tests.memory_queries import query
from tests.processes import LIMIT_S
from vector.forget import files
from vector.store import Store

T = "default"
MARK = "zanzibarquux"  # in nothing that is not forgotten
EVERYTHING = MemoryFilter(repos=("r",))
SMALL = MemorySettings(budget_tokens=1000, summary_tokens=80, pin_recent=0)


async def remember(
    store: Store, text: str, *, repo: str = "r", agent: str = "a", tenant: str = T, **more: Any
) -> MemoryEntry:
    meta = MemoryMetadata(
        source=more.pop("source", MemorySource.AGENT),
        session_key=more.pop("session", ""),
        tags=more.pop("tags", ()),
        custom=more.pop("custom", {}),
    )
    supersedes = more.pop("supersedes", None)
    request = more.pop("request", str(uuid4()))
    entry = MemoryEntry(NO_ID, repo, agent, text, meta, **more)
    (receipt,) = await store.memories.store(tenant, [check(entry, request, supersedes)])
    assert isinstance(receipt, MemoryReceipt), receipt
    return receipt.entry


def episode(
    request_id: str, word: str, *, agent: str = "a", repo: str = "r", summary: str = ""
) -> Episode:
    """An episode that has `word` in everything that can hold a text."""
    diff = (
        f"fixes #77\n--- a/src/{word}.py\n+++ b/src/{word}.py\n@@ -1,2 +1,2 @@ def {word}():\n"
        f"-    old_{word}()\n+    new_{word}()\n"
    )
    artifacts = [
        Artifact(ArtifactKind.PLAN, f"plan about {word}", meta={"who": word}),
        Artifact(ArtifactKind.DIFF, diff, path=f"src/{word}.py"),
        Artifact(ArtifactKind.REFLECTION, f"{word} taught me, see #77 and #78"),
        Artifact(
            ArtifactKind.TEST_RESULT,
            f"tests/test_{word}.py::test_{word} FAILED",
            meta={"tests": [{"name": f"tests/test_{word}.py::test_{word}", "status": "failed"}]},
        ),
        Artifact(ArtifactKind.NOTE, f"a note on {word}"),
        Artifact(ArtifactKind.TURN, f"the user said {word}", meta={"role": "user"}),
    ]
    return Episode(
        request_id, repo, Outcome("success", summary or f"{word} done", {}, "ab12cd34", f"br-{word}"),
        artifacts, agent, f"session-{word}", (f"tag-{word}",),
        body_hash=b"h",
        evidence=(Evidence(f"{word}.txt", "text/plain", f"raw {word}".encode()),),
    )  # fmt: skip


def dump(dsn: str) -> dict[str, str]:
    """Every table of the schema as text, bytes unpacked: evidence too."""
    out = {}
    with psycopg.connect(dsn, options="-c search_path=plait") as conn:
        tables = conn.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'plait'::regnamespace AND relkind = 'r'"
        ).fetchall()
        for (table,) in tables:
            rows = conn.execute(
                sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))
            ).fetchall()
            out[table] = "\n".join(" ".join(map(_text, row)) for row in rows)
        stats = conn.execute("SELECT * FROM pg_stats WHERE schemaname = 'plait'").fetchall()
        out["pg_stats"] = str(stats)
    return out


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return zlib.decompress(value).decode("utf-8", "replace")
    except zlib.error:
        return value.decode("latin-1") + value.hex()


def holding(dsn: str, needles: Iterable[str], *, but: Iterable[str] = ("outbox",)) -> set[str]:
    """Tables that hold one of `needles`. The outbox has to name what it removes from the graph."""
    found = dump(dsn)
    return {
        table
        for table, text in found.items()
        if table not in but and any(n.lower() in text.lower() for n in needles)
    }


async def forget(
    store: Store, *, repo: str = "r", dry_run: bool = False, **sel: Any
) -> ForgetReceipt:
    return await store.forgetting.forget(T, repo, Selector(**sel), dry_run=dry_run)


def proved(receipt: ForgetReceipt) -> None:
    assert receipt.left
    assert not any(receipt.left.values()), receipt.left


async def test_a_memory_and_all_its_versions_are_gone_everywhere(
    store: Store, truth_dsn: str
) -> None:
    await store.vectors.ensure_space("m", 2)
    kept = await remember(store, "the other one stays", session="s")
    entry = await remember(
        store, f"the {MARK} is here", tags=(f"tag-{MARK}",), custom={"k": MARK}, path=f"src/{MARK}.py",
        embedding=(1.0, 0.0),
    )  # fmt: skip
    await remember(store, f"the {MARK} is here", tags=("more",), path=f"src/{MARK}.py")
    assert (await store.memories.get(T, "r", entry.id)).version == 2
    before = datetime.now(UTC)
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("ANALYZE")
    assert {"memories", "posting", "memory_edge"} <= holding(truth_dsn, [MARK])
    receipt = await forget(store, ids=(entry.id,))
    proved(receipt)
    assert receipt.entries == (entry.id,)
    assert receipt.removed["memories"] == 2
    assert receipt.event_id > 0
    assert holding(truth_dsn, [MARK]) == set()
    assert holding(truth_dsn, [str(entry.id)], but=("forgotten", "outbox")) == set()
    for as_of in (NOW, AsOf(recorded=before), AsOf(recorded=entry.created_at)):
        with pytest.raises(MemoryNotFound):
            await store.memories.get(T, "r", entry.id, as_of)
        page = await store.memories.list(
            MemoryFilter(repos=("r",)), limit=10, as_of=as_of, include_superseded=True
        )
        assert {e.id for e in page.entries} <= {kept.id}
    matches = await query(store, MARK, None, MemoryQueryOptions(MemoryFilter(repos=("r",))))
    assert all(m.entry.id == kept.id for m in matches)


async def test_an_episode_is_gone_with_all_that_came_with_it(store: Store, truth_dsn: str) -> None:
    await store.episodes.append(episode("other", "harmless"))
    await store.episodes.append(replace(episode("mine", MARK)))
    (mine,) = ids(truth_dsn, "SELECT episode_id FROM plait.request WHERE request_id = 'mine'")
    assert {"episode", "hunk", "evidence", "memory_node", "diffs", "plans", "tests"} <= holding(
        truth_dsn, [MARK]
    )
    receipt = await forget(store, ids=(mine,))
    proved(receipt)
    assert receipt.episodes == (mine,)
    assert len(receipt.entries) == 2
    assert holding(truth_dsn, [MARK]) == set()
    assert holding(truth_dsn, [str(mine)], but=("forgotten", "outbox")) == set()
    assert "harmless" in dump(truth_dsn)["posting"]
    where = Filter(repos=("r",), collections=tuple(Collection))
    view = await store.search.view(where)
    assert await store.search.lexical(view, [MARK], where, 10) == []
    assert len(await store.search.lexical(view, ["harmless"], where, 10)) == 6


def ids(dsn: str, query: str) -> list[UUID]:
    with psycopg.connect(dsn) as conn:
        return [row[0] for row in conn.execute(query.encode()).fetchall()]


async def test_a_dry_run_counts_what_a_run_removes_and_changes_nothing(
    store: Store, truth_dsn: str
) -> None:
    await store.episodes.append(episode("e", MARK))
    await remember(store, f"and {MARK}")
    before = dump(truth_dsn)
    dry = await forget(store, agent_id="a", dry_run=True)
    assert dry.dry_run
    assert dry.event_id == 0
    after = dump(truth_dsn)
    assert {t for t in before if before[t] != after[t]} <= {"pg_stats"}
    done = await forget(store, agent_id="a")
    assert (dry.entries, dry.episodes, dry.removed) == (done.entries, done.episodes, done.removed)


async def test_forgetting_twice_finds_nothing(store: Store) -> None:
    entry = await remember(store, MARK)
    await forget(store, ids=(entry.id,))
    again = await forget(store, ids=(entry.id,))
    assert (again.entries, again.episodes, again.removed) == ((), (), {})


async def test_by_source_by_agent_and_by_time(store: Store) -> None:
    user = await remember(store, "the user said so", source=MemorySource.USER)
    other = await remember(store, "another agent said so", agent="b")
    early = await remember(store, "early words")
    assert early.updated_at is not None
    late = await remember(store, "late words")
    done = await forget(store, source="user")
    assert done.entries == (user.id,)
    done = await forget(store, agent_id="b")
    assert done.entries == (other.id,)
    narrow: dict[str, Any] = {"recorded_from": early.updated_at, "recorded_to": late.updated_at}
    assert (await forget(store, agent_id="b", **narrow)).entries == ()
    done = await forget(store, **narrow)
    assert done.entries == (early.id,)
    assert (await store.memories.get(T, "r", late.id)).id == late.id


async def test_a_version_inside_the_time_takes_its_whole_entry(store: Store) -> None:
    entry = await remember(store, "said once")
    middle = datetime.now(UTC)
    await remember(store, "said once", tags=("again",))
    assert (await forget(store, recorded_from=middle)).entries == (entry.id,)


async def test_only_the_named_repository_and_tenant_lose_anything(store: Store) -> None:
    here = await remember(store, "said in both")
    there = await remember(store, "said in both", repo="r2")
    theirs = await remember(store, "said in both", repo="other@r", tenant="other")
    assert (await forget(store, agent_id="a")).entries == (here.id,)
    assert (await store.memories.get(T, "r2", there.id)).id == there.id
    with pytest.raises(RepositoryNotIndexed):
        await store.forgetting.forget("other", "r", Selector(agent_id="a"), dry_run=False)
    assert (await store.memories.get("other", "other@r", theirs.id)).id == theirs.id


@pytest.mark.parametrize(
    "selector",
    [
        Selector(),
        Selector(source="nobody"),
        Selector(recorded_from=datetime(2026, 1, 1)),
        Selector(
            recorded_from=datetime(2026, 1, 2, tzinfo=UTC),
            recorded_to=datetime(2026, 1, 2, tzinfo=UTC),
        ),
    ],
)
async def test_what_says_nothing_or_nonsense_is_refused(store: Store, selector: Selector) -> None:
    with pytest.raises(InvalidInput):
        await store.forgetting.forget(T, "r", selector, dry_run=False)


async def test_a_repeat_does_not_bring_it_back(store: Store, truth_dsn: str) -> None:
    entry = MemoryEntry(NO_ID, "r", "a", f"the {MARK}")
    for request in ("mine", ""):  # "": one that is made of the body
        write = check(entry, request)
        (receipt,) = await store.memories.store(T, [write])
        assert isinstance(receipt, MemoryReceipt)
        await forget(store, ids=(receipt.entry.id,))
        (again, fresh) = await store.memories.store(
            T, [write, check(replace(entry, content=f"new {request}"))]
        )
        assert isinstance(again, RequestForgotten)
        assert isinstance(fresh, MemoryReceipt)
        assert "new request_id" in str(again)
        await forget(store, ids=(fresh.entry.id,))
    # Another id says that it is meant.
    assert (await remember(store, f"the {MARK}")).content == f"the {MARK}"
    sent = episode("e", "harmless")
    done = await store.episodes.append(sent)
    await forget(store, ids=(done.episode_id,))
    with pytest.raises(RequestForgotten):
        await store.episodes.append(sent)
    (answer,) = await store.episodes.append_many([replace(sent, body_hash=b"x")])
    assert isinstance(answer, RequestIdReused)
    assert holding(truth_dsn, ["harmless"]) == set()


async def test_summaries_go_with_a_source_and_the_others_come_back(
    store: Store, truth_dsn: str
) -> None:
    entries = [
        await remember(
            store,
            f"Step {i}: because part_{i} failed with KeyError {i}, decided {MARK if i == 3 else 'on'} "
            f"retry number {i} of the handler in src/part_{i}.py and it passed. " * 3,
            session="s",
        )
        for i in range(20)
    ]
    done = await service.compact(store.retention, Extractive(), Scope(T, "r", "a"), SMALL)
    into = {s.entry_id: s.into for s in done.plan.closed}
    summary = into[entries[3].id]
    mates = {e for e, s in into.items() if s == summary} - {entries[3].id}
    receipt = await forget(store, ids=(entries[3].id,))
    proved(receipt)
    assert set(receipt.entries) == {entries[3].id, summary}
    assert set(receipt.reopened) == mates
    assert receipt.removed["reopened"] == len(mates)
    assert holding(truth_dsn, [MARK]) == set()
    page = await store.memories.list(MemoryFilter(repos=("r",)), limit=100)
    assert mates <= {e.id for e in page.entries}
    # What of that compaction is left can be undone still, and is not brought back by it.
    await store.retention.undo(T, done.id)
    with pytest.raises(MemoryNotFound):
        await store.memories.get(T, "r", entries[3].id)
    page = await store.memories.list(MemoryFilter(repos=("r",)), limit=100)
    assert {e.id for e in page.entries} == {e.id for e in entries} - {entries[3].id}


async def test_duplicates_that_were_closed_for_it_go_too(store: Store, truth_dsn: str) -> None:
    old = await remember(store, f"Run {MARK}!", session="one")
    new = await remember(store, f"run {MARK}", session="two")
    await service.compact(store.retention, Extractive(), Scope(T, "r", "a"), SMALL)
    receipt = await forget(store, ids=(new.id,))
    proved(receipt)
    assert set(receipt.entries) == {old.id, new.id}
    assert holding(truth_dsn, [MARK]) == set()


async def test_what_it_took_the_place_of_stays_closed(store: Store) -> None:
    old = await remember(store, "the port is 80")
    new = await remember(store, "the port is 8080", supersedes=old.id)
    await forget(store, ids=(new.id,))
    page = await store.memories.list(MemoryFilter(repos=("r",)), limit=9, include_superseded=True)
    (left,) = page.entries
    assert left.superseded_at is not None
    assert left.superseded_by is None


async def test_an_episode_that_loses_a_turn_loses_its_raw_evidence(
    store: Store, truth_dsn: str
) -> None:
    done = await store.episodes.append(episode("e", "harmless"))
    receipt = await forget(store, source="user")
    assert receipt.episodes == ()
    assert receipt.removed["evidence"] == 1
    assert len(receipt.entries) == 1
    assert ids(truth_dsn, "SELECT id FROM plait.episode") == [done.episode_id]


async def test_issues_and_commits_go_with_the_last_that_names_them(
    store: Store, truth_dsn: str
) -> None:
    one = await store.episodes.append(episode("one", "harmless"))
    two = await store.episodes.append(episode("two", MARK))
    names = "SELECT name FROM plait.memory_node WHERE label IN ('Issue', 'Commit') ORDER BY 1"
    shared = ["commit/ab12cd34", "issue/77", "issue/78"]
    assert ids(truth_dsn, names) == shared
    await forget(store, ids=(two.episode_id,))
    assert ids(truth_dsn, names) == shared
    await forget(store, ids=(one.episode_id,))
    assert ids(truth_dsn, names) == []


async def test_a_shared_commit_loses_the_branch_of_what_is_forgotten(
    store: Store, truth_dsn: str
) -> None:
    mine = await store.episodes.append(
        episode("one", MARK)
    )  # named the commit first, with its branch
    await store.episodes.append(episode("two", "harmless"))
    receipt = await forget(store, ids=(mine.episode_id,))
    proved(receipt)
    assert holding(truth_dsn, [MARK]) == set()


async def test_dead_letters_and_causes_are_cleared(store: Store, truth_dsn: str) -> None:
    entry = await remember(store, f"the {MARK}")
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute("UPDATE outbox SET cause = %s", (f"could not write {MARK}",))
        conn.execute(
            "INSERT INTO dead_letter (event_id, repo_id, kind, number, entries, attempts, cause, created_at)"
            " SELECT id + 1000, repo_id, kind, 0, entries, 1, cause, now() FROM outbox"
        )
    proved(await forget(store, ids=(entry.id,)))
    assert holding(truth_dsn, [MARK]) == set()


async def test_the_search_for_traces_finds_what_a_broken_removal_leaves(
    store: Store, truth_dsn: str
) -> None:
    """The proof is no formality: a table that removal does not know is searched all the same."""
    entry = await remember(store, f"the {MARK}")
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute("CREATE TABLE later (repo_id integer, about uuid, told jsonb)")
        try:
            conn.execute(
                "INSERT INTO later SELECT id, %s, %s FROM repository WHERE name = 'r'",
                (entry.id, f'{{"a": ["{MARK}"]}}'),
            )
            receipt = await forget(store, ids=(entry.id,))
        finally:
            conn.execute("DROP TABLE later")
    assert receipt.left["later"] == 1
    assert sum(receipt.left.values()) == 1


async def test_a_word_that_others_say_too_is_no_trace(store: Store) -> None:
    entry = await remember(store, "the handler retries thrice")
    await remember(store, "the handler retries thrice, and then some")
    await store.episodes.append(episode("e", "handler", summary="thrice retries"))
    proved(await forget(store, ids=(entry.id,)))


async def test_a_part_of_a_word_that_others_share_is_no_trace(store: Store) -> None:
    entry = await remember(store, "the counter bo399 fell over")
    await remember(store, "the counter bo128 held, and 399 others with it")
    proved(await forget(store, ids=(entry.id,)))


async def test_what_another_repository_says_is_no_trace_in_statistics(
    store: Store, truth_dsn: str
) -> None:
    entry = await remember(store, f"the {MARK}")
    for n in range(3):
        await remember(store, f"kept {n} {MARK}", repo="other")
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("ANALYZE")
    proved(await forget(store, ids=(entry.id,)))
    assert MARK in dump(truth_dsn)["pg_stats"]


async def test_reclaim_takes_it_out_of_the_tables_files(store: Store, truth_dsn: str) -> None:
    entry = await remember(store, f"the {MARK}")
    await forget(store, ids=(entry.id,))
    tables = await store.forgetting.reclaim()
    assert {"plait.memories", "plait.posting"} <= set(tables)
    # The store works on.
    assert (await remember(store, "and on it goes")).version == 1
    assert await query(store, "goes", None, MemoryQueryOptions(MemoryFilter(repos=("r",))))


async def test_how_many_files_still_hold_it_is_counted_by_reading_them(
    store: Store, truth_dsn: str
) -> None:
    entry = await remember(store, f"the {MARK}")
    other = await remember(store, "something else")
    before = await forget(store, ids=(other.id,), dry_run=True)
    assert before.marks == ()
    assert await store.forgetting.held(before.marks) is None
    gone = await forget(store, ids=(entry.id,))
    proved(gone)
    held = await store.forgetting.held(gone.marks)
    assert held is not None
    assert held.table_files > 0
    assert held.log_files > 0
    await store.forgetting.reclaim()
    held = await store.forgetting.held(gone.marks)
    assert held is not None
    assert held.table_files == 0  # …
    still = await store.forgetting.held([other.id.bytes])
    assert still is not None
    assert still.table_files > 0  # … and not since nothing is looked for


async def test_a_server_whose_files_cannot_be_read_is_said_to_be_none(
    store: Store, tmp_path: Path
) -> None:
    control = tmp_path / "global" / "pg_control"
    control.parent.mkdir()
    control.write_bytes(b"\0" * 16)
    assert files._count(tmp_path, 7, [], [b"x"]) is None
    assert files._count(tmp_path / "away", 0, [], [b"x"]) is None


async def test_statistics_that_a_full_disk_left_are_taken_by_the_next_call(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = "SELECT count(*) FROM plait.forgotten WHERE NOT refreshed"

    async def full(*_: Any) -> int:
        raise StoreFull("the disk is full")

    await remember(store, "this one stays", tags=("other",))

    def left() -> int:
        with psycopg.connect(truth_dsn, autocommit=True) as conn:
            return int(conn.execute(stale).fetchall()[0][0])

    for again in ("forget", "reclaim"):
        entry = await remember(store, f"{again} it", tags=(MARK,))
        with psycopg.connect(truth_dsn, autocommit=True) as conn:
            conn.execute("ANALYZE")
        with monkeypatch.context() as broken:
            broken.setattr(store.forgetting, "_refresh", full)
            with pytest.raises(StoreFull):
                await forget(store, ids=(entry.id,))
        assert left() == 1
        assert MARK in dump(truth_dsn)["pg_stats"]
        if again == "forget":
            assert (await forget(store, ids=(entry.id,))).entries == ()
        else:
            await store.forgetting.reclaim()
        assert left() == 0
        assert not [table for table, rows in dump(truth_dsn).items() if MARK in rows]


async def test_what_breaks_in_the_middle_changes_nothing(store: Store, truth_dsn: str) -> None:
    entry = await remember(store, f"the {MARK}")
    before = dump(truth_dsn)
    failpoint.arm((Failpoint("forget.in_the_middle", Action.ERROR, onwards=True),))
    try:
        with pytest.raises(StoreUnavailable):
            await forget(store, ids=(entry.id,))
    finally:
        failpoint.arm(())
    after = dump(truth_dsn)
    assert {t for t in before if before[t] != after[t]} <= {"pg_stats"}
    failpoint.arm((Failpoint("forget.in_the_middle", Action.ERROR),))  # once: tried again
    try:
        proved(await forget(store, ids=(entry.id,)))
    finally:
        failpoint.arm(())


@pytest.mark.parametrize("seed", range(3))
async def test_of_a_random_history_exactly_what_is_meant_is_gone(
    store: Store, truth_dsn: str, seed: int
) -> None:
    """Memories, new versions, episodes, compactions and undoing, each text with a word of its own;
    then forgetting by whatever, after which every word of it is gone and every other one is there."""
    rng = random.Random(seed)
    marks: dict[UUID, str] = {}
    episodes: dict[UUID, str] = {}
    compactions: list[UUID] = []
    start = datetime.now(UTC)
    for n in range(60):
        word = f"quux{''.join(chr(97 + int(d)) for d in str(n))}zed"
        agent, session = rng.choice("ab"), rng.choice(["", "s", "t"])
        act = rng.random()
        if act < 0.65 or not marks:
            text = f"part_{n}.py failed with code {n}: {word}, so we decided to retry. " * 4
            source = rng.choice(list(MemorySource))
            entry = await remember(store, text, agent=agent, session=session, source=source)
            marks[entry.id] = word
        elif act < 0.75:
            old = rng.choice(list(marks))
            there = (await store.memories.list(EVERYTHING, limit=500)).entries
            if known := next((e for e in there if e.id == old), None):
                key = known.metadata.session_key
                await remember(
                    store, known.content, agent=known.agent_id, session=key, tags=(f"n{n}",)
                )
        elif act < 0.85:
            stored = await store.episodes.append(episode(f"e{n}", word, agent=agent))
            episodes[stored.episode_id] = word
        elif act < 0.95:
            done = await service.compact(store.retention, Extractive(), Scope(T, "r", agent), SMALL)
            if done.id != service.NOTHING:
                compactions.append(done.id)
        elif compactions:
            with contextlib.suppress(UndoExpired):
                await store.retention.undo(T, compactions.pop())
    middle = start + (datetime.now(UTC) - start) / 2
    for selector in (
        Selector(ids=(rng.choice(list(marks)),)),
        Selector(ids=tuple(rng.sample([*marks, *episodes], 3))),
        Selector(source="user", recorded_from=middle),
        Selector(agent_id="a", recorded_to=middle),
        Selector(agent_id="b"),
    ):
        receipt = await store.forgetting.forget(T, "r", selector, dry_run=False)
        assert not any(receipt.left.values()), receipt.left
        gone = {w for id_, w in marks.items() if id_ in receipt.entries}
        gone |= {w for id_, w in episodes.items() if id_ in receipt.episodes}
        marks = {id_: w for id_, w in marks.items() if id_ not in receipt.entries}
        episodes = {id_: w for id_, w in episodes.items() if id_ not in receipt.episodes}
        assert holding(truth_dsn, gone, but=("outbox", "request")) == set()
        told = dump(truth_dsn)
        assert all(word in told["memories"] for word in marks.values())
        assert all(word in told["diffs"] for word in episodes.values())
        # What a forgotten summary stood for is there again: nothing is closed without a stand-in.
        alive = {e.id for e in (await store.memories.list(EVERYTHING, limit=500)).entries}
        closed = await store.memories.list(EVERYTHING, limit=500, include_superseded=True)
        newest = {e.id: e for e in sorted(closed.entries, key=lambda e: e.version)}
        for e in newest.values():
            if e.superseded_by is None and e.id not in alive:
                assert e.kind == "summary"  # of a compaction that was undone


# -- the graph ----------------------------------------------------------------------------------------


@pytest.fixture
async def real_graph(settings: Settings, embedded_graph: object) -> AsyncIterator[GraphStore]:
    opened = await graph.open(settings)
    yield opened
    await opened.close()


async def test_the_graph_holds_nothing_of_it_either(store: Store, real_graph: GraphStore) -> None:
    repo = f"forget-{uuid4().hex[:8]}"

    async def opened() -> GraphStore:
        return real_graph

    await remember(store, "the other one stays", repo=repo)
    await store.episodes.append(episode("kept", "harmless", repo=repo))
    entry = await remember(store, f"the {MARK}", repo=repo, path=f"src/{MARK}.py")
    done = await store.episodes.append(episode("mine", MARK, repo=repo))
    await Projector(store.outbox, opened).run_until_idle()
    assert MARK in await _all_of(real_graph, repo)
    await store.forgetting.forget(T, repo, Selector(ids=(entry.id, done.episode_id)), dry_run=False)
    await Projector(store.outbox, opened).run_until_idle()
    told = await _all_of(real_graph, repo)
    assert MARK not in told
    assert str(entry.id) not in told
    assert str(done.episode_id) not in told
    assert "harmless" in told
    expected, found = await store.outbox.expected(repo), await real_graph.contents(repo)
    assert (dict(found.nodes), dict(found.edges)) == (dict(expected.nodes), dict(expected.edges))
    assert await store.outbox.waiting([repo]) == 0


async def _all_of(store: GraphStore, repo: str) -> str:
    deadline = Deadline.after(LIMIT_S)
    nodes = await store.query(
        "MATCH (n) WHERE n.repo = $repo RETURN properties(n) AS p",
        {"repo": repo}, max_rows=5000, deadline=deadline,
    )  # fmt: skip
    edges = await store.query(
        "MATCH (n)-[e]->(m) WHERE n.repo = $repo RETURN properties(e) AS p, m.id AS id",
        {"repo": repo}, max_rows=5000, deadline=deadline,
    )  # fmt: skip
    return str(nodes.rows) + str(edges.rows)


async def test_times_of_the_receipt_are_told(store: Store, truth_dsn: str) -> None:
    entry = await remember(store, MARK)
    receipt = await forget(
        store, ids=(entry.id,), recorded_to=datetime.now(UTC) + timedelta(days=1)
    )
    with psycopg.connect(truth_dsn) as conn:
        row = conn.execute("SELECT id, selector, entries, proof FROM plait.forgotten").fetchone()
    assert row is not None
    assert row[0] == receipt.id
    assert row[1]["ids"] == 1
    assert row[2] == [entry.id]
    assert row[3]["removed"]["memories"] == 1
