"""IndexStore's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from plait.domain.errors import RepositoryBusy, RepositoryNameTaken, RepositoryNotIndexed
from plait.domain.values import Filter, Revision
from plait.ports import Draft, FileRow, IndexStats, View
from tests.contract.conftest import end_sessions
from tests.processes import LIMIT_S, eventually
from vector.connection import log
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Revision]]

A = {"pkg/a.toy": ["alpha: beta", "omega:"], "pkg/b.toy": ["beta: alpha"]}


async def texts(store: Store, view: View | None = None, repo: str = "r") -> dict[str, str]:
    """Path and symbol → content of all that a search for a word of every chunk finds."""
    view = view or await store.search.view(Filter(repos=(repo,)))
    found = await store.search.lexical(view, ["toy"], Filter(repos=(repo,)), 1000)
    items = await store.search.fetch(view, [c.id for c in found])
    assert len(items) == len(found)
    return {f"{i.path} {i.symbol}": i.content for i in items.values()}


async def test_a_published_draft_is_read_whole(store: Store, index: IndexFiles) -> None:
    revision = await index(store, "r", A)
    assert (revision.number, revision.files, revision.chunks) == (1, 2, 3)
    assert (revision.root, revision.embedded, revision.graph_number) == ("/src", 0, 0)
    assert await store.repositories.revision("r") == revision
    assert await store.repositories.list() == [revision]
    assert await texts(store) == {
        "pkg/a.toy pkg.a.alpha": "alpha: beta",
        "pkg/a.toy pkg.a.omega": "omega:",
        "pkg/b.toy pkg.b.beta": "beta: alpha",
    }


async def test_readers_between_begin_and_publish_see_the_old_revision_only(
    store: Store, other: Store, index: IndexFiles
) -> None:
    await index(store, "r", A)
    before = await texts(other)
    changed = {"pkg/a.toy": ["alpha: gamma"], "pkg/c.toy": ["gamma:"]}
    await index(store, "r", changed, publish=False)
    assert await texts(other) == before
    assert (await other.repositories.revision("r")).number == 1
    await store.index.close()
    await index(store, "r", changed)
    assert await texts(other) == {
        "pkg/a.toy pkg.a.alpha": "alpha: gamma",
        "pkg/c.toy pkg.c.gamma": "gamma:",
    }


async def test_a_reader_that_pinned_a_revision_keeps_it_over_the_next_publish(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", A)
    pinned = await store.search.view(Filter(repos=("r",)))
    before = await texts(store, pinned)
    await index(store, "r", {"pkg/b.toy": ["beta: alpha", "new:"]})
    assert await texts(store, pinned) == before
    assert len(await texts(store)) == 2


async def test_a_first_draft_is_invisible(store: Store, index: IndexFiles) -> None:
    await index(store, "r", A, publish=False)
    assert await store.repositories.list() == []
    with pytest.raises(RepositoryNotIndexed):
        await store.repositories.revision("r")
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(Filter(repos=("r",)))
    await store.index.close()


async def test_a_broken_draft_is_cleaned_by_the_next_begin(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", A)
    stored = await _stored(store)
    await index(store, "r", {"pkg/a.toy": ["alpha:"]}, publish=False)
    await store.index.close()  # as when the process dies
    assert await _stored(store) == stored
    assert _rows(truth_dsn, "SELECT max(rev_from) FROM item") == [(1,)]
    assert _rows(truth_dsn, "SELECT max(rev_from), max(rev_to) FROM file_graph") == [(1, None)]
    assert _rows(truth_dsn, "SELECT count(*) FROM segment") == [(1,)]
    assert len(await texts(store)) == 3


async def test_a_killed_writer_loses_its_lock_at_once_and_leaves_nothing(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", A)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, truth_dsn, stdin=PIPE, stdout=PIPE
    )
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip() == b"written"
    with pytest.raises(RepositoryBusy):
        await store.index.begin("r", "/src")
    child.kill()
    await child.wait()
    draft = await _begin_when_free(store)
    assert sorted(await store.index.stored_files(draft)) == sorted(A)
    await store.index.discard(draft)
    assert len(await texts(store)) == 3
    assert _rows(truth_dsn, "SELECT count(*) FROM file_version WHERE path = 'killed.toy'") == [(0,)]


KILLED = """
import asyncio, sys
from etl.truth import open as open_truth
from plait.ports import FileRow
from plait.settings import load

async def main():
    settings = load(environ={"PLAIT_HOME": "/nonexistent", "PLAIT_POSTGRES__DSN": sys.argv[1]})
    store = await open_truth(settings)
    draft = await store.index.begin("r", "/src")
    await store.index.write_files(draft, [FileRow("killed.toy", b"h", "toy", 1, 1, b"")])
    await store.index.retire(draft, ["pkg/a.toy"])
    print("written", flush=True)
    sys.stdin.read()  # until it is killed, or the tests have ended

asyncio.run(main())
"""


async def _begin_when_free(store: Store) -> Draft:
    """The server sees the closed socket within milliseconds."""

    async def begun() -> Draft | None:
        with contextlib.suppress(RepositoryBusy):
            return await store.index.begin("r", "/src")
        return None

    return await eventually(begun)


async def test_one_writer_a_repository(store: Store, other: Store, index: IndexFiles) -> None:
    draft = await store.index.begin("r", "/src")
    for second in (store, other):
        with pytest.raises(RepositoryBusy):
            await second.index.begin("r", "/src")
    await index(other, "another", A)
    await store.index.discard(draft)
    await index(other, "r", A)


async def test_a_writer_is_waited_for(store: Store, other: Store, index: IndexFiles) -> None:
    draft = await store.index.begin("r", "/src")
    with pytest.raises(RepositoryBusy):
        await other.index.begin("r", "/src", wait_s=0.05)
    waiting = asyncio.create_task(other.index.begin("r", "/src", wait_s=LIMIT_S))

    async def queued() -> bool:
        rows = await store.db.rows(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", {}
        )
        return bool(rows)

    await eventually(queued)
    # Who waits comes before who asks later.
    await store.index.discard(draft)
    await other.index.discard(await waiting)
    await index(store, "r", A)


async def test_a_writer_that_lost_its_lock_is_refused(
    store: Store, other: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", A)
    stale = await store.index.begin("r", "/src")
    _terminate(truth_dsn, "objid = (SELECT id FROM repository WHERE name = 'r')")
    newer = await _begin_when_free(other)
    row = FileRow("late.toy", b"h", "toy", 1, 1, b"")
    with pytest.raises(RepositoryBusy):
        await store.index.write_files(stale, [row])
    with pytest.raises(RepositoryBusy):
        await store.index.publish(stale, IndexStats())
    await other.index.discard(newer)
    await store.index.discard(stale)
    assert len(await texts(store)) == 3


async def test_writes_go_on_after_the_server_dropped_the_connections(
    store: Store, truth_dsn: str
) -> None:
    draft = await store.index.begin("r", "/src")
    lock = store.index._drafts[draft.repo_id].conn.info.backend_pid
    await store.index.write_files(draft, [FileRow("a.toy", b"h", "toy", 1, 1, b"")])
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        end_sessions(conn, f"application_name = 'plait' AND pid <> {lock}")
    await store.index.write_files(draft, [FileRow("b.toy", b"h", "toy", 1, 1, b"")])
    assert (await store.index.publish(draft, IndexStats())).files == 2


async def test_a_name_belongs_to_one_root(store: Store, index: IndexFiles) -> None:
    await index(store, "r", A, root="/one")
    with pytest.raises(RepositoryNameTaken) as caught:
        await store.index.begin("r", "/two")
    assert caught.value.metadata["indexed_root"] == "/one"
    draft = await store.index.begin("r", "/two", move=True)
    await store.index.discard(draft)
    assert (await store.repositories.revision("r")).root == "/two"


async def test_an_unpublished_run_takes_no_name(store: Store, index: IndexFiles) -> None:
    await index(store, "r", A, root="/one", publish=False)
    await store.index.close()
    assert (await index(store, "r", A, root="/two")).root == "/two"


async def test_discard_leaves_the_revision_and_frees_the_lock(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    first = await index(store, "r", A)
    draft = await store.index.begin("r", "/src")
    await store.index.write_files(draft, [FileRow("x.toy", b"h", "toy", 1, 1, b"")])
    await store.index.retire(draft, ["pkg/a.toy"])
    await store.index.discard(draft)
    await store.index.discard(draft)
    assert await store.repositories.revision("r") == first
    assert _rows(truth_dsn, "SELECT count(*) FROM file_version") == [(2,)]
    assert (await index(store, "r", {"pkg/b.toy": ["beta:"]})).number == 2


async def test_writing_the_same_rows_again_replaces_them(store: Store) -> None:
    draft = await store.index.begin("r", "/src")
    for lines in (1, 2):
        await store.index.write_files(
            draft, [FileRow("a.toy", b"h", "toy", lines, lines, b"f%d" % lines)]
        )
    revision = await store.index.publish(draft, IndexStats())
    assert revision.files == 1
    draft = await store.index.begin("r", "/src")
    assert (await store.index.stored_files(draft))["a.toy"].lines == 2
    assert [pair async for pair in store.index.facts(draft)] == [("a.toy", b"f2")]
    await store.index.discard(draft)


async def test_facts_of_some_paths(store: Store, index: IndexFiles) -> None:
    await index(store, "r", A)
    draft = await store.index.begin("r", "/src")
    assert [p async for p, _ in store.index.facts(draft)] == ["pkg/a.toy", "pkg/b.toy"]
    assert [p async for p, _ in store.index.facts(draft, ["pkg/b.toy", "gone"])] == ["pkg/b.toy"]
    await store.index.discard(draft)


async def test_delete_removes_every_row_and_numbers_go_on(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "keep", A)
    await index(store, "r", A)
    await store.repositories.delete("r")
    assert [r.repo for r in await store.repositories.list()] == ["keep"]
    for table in (
        "item",
        "file_version",
        "file_member",
        "graph_part",
        "graph_member",
        "symbol_name",
        "segment",
    ):
        rows = _rows(truth_dsn, f"SELECT DISTINCT repo_id FROM {table}")
        assert len(rows) == 1, table
    with pytest.raises(RepositoryNotIndexed):
        await store.repositories.delete("r")
    assert (await index(store, "r", A)).number == 2
    assert len(await texts(store)) == 3


async def test_delete_waits_for_no_writer(store: Store, other: Store, index: IndexFiles) -> None:
    await index(store, "r", A)
    draft = await store.index.begin("r", "/src")
    with pytest.raises(RepositoryBusy):
        await other.repositories.delete("r")
    await store.index.discard(draft)


async def test_garbage_goes_and_segments_stay_few(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    files = {f"f{i}.toy": [f"name{i}: alpha", f"other{i}:"] for i in range(6)}
    for n in range(24):
        files[f"f{n % 6}.toy"] = [f"name{n}: alpha", f"round{n}:"]
        await index(store, "r", files)
    assert len(await texts(store)) == 12
    ((rows, segments, dead),) = _rows(
        truth_dsn,
        "SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM segment),"
        " (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM segment_dead"
        " GROUP BY segment_id) d)",
    )
    assert rows <= 12 + 2 * 4  # the revision before is kept for its readers
    assert segments <= 16
    assert dead <= 3
    orphans = _rows(
        truth_dsn,
        "SELECT count(*) FROM posting WHERE segment_id NOT IN (SELECT id FROM segment)",
    )
    assert orphans == [(0,)]


async def test_text_that_postgresql_cannot_hold_is_made_storable(store: Store) -> None:
    from plait.domain.ids import new_item_ids
    from plait.domain.values import Chunk

    draft = await store.index.begin("r", "/src")
    (id_,) = new_item_ids(1)
    chunk = Chunk(id_, "a.toy", "a.b", "function", "toy", 1, 1, "nul \0 here", b"h" * 16)
    await store.index.write_files(draft, [FileRow("a.toy", b"h", "toy", 1, 1, b"\0")])
    await store.index.write_chunks(draft, [chunk])
    await store.index.publish(draft, IndexStats())
    view = await store.search.view(Filter())
    assert (await store.search.fetch(view, [id_]))[id_].content == "nul \ufffd here"


async def _stored(store: Store) -> dict[str, Any]:
    draft = await store.index.begin("r", "/src")
    try:
        return await store.index.stored_files(draft)
    finally:
        await store.index.discard(draft)


def _rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, options="-c search_path=plait") as conn:
        return conn.execute(query.encode()).fetchall()


def _terminate(dsn: str, which: str) -> None:
    """End the sessions that hold an advisory lock which matches."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        held = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND {which}"
        end_sessions(conn, f"pid IN ({held})")


async def test_the_log_of_a_large_write_is_shortened_and_nothing_is_lost(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", {"a.toy": [f"name{n}:" for n in range(200)]})
    assert await log.shorten(store.db, 2**40) == 0, "too little to be worth it"
    assert await log.shorten(store.db, 1) > 0
    assert await log.shorten(store.db, 2**16) == 0, "it is covered"
    assert (await store.repositories.revision("r")).chunks == 200
