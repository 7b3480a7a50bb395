"""MemoryStore's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest

from plait.domain.errors import (
    EmbeddingModelMismatch,
    InvalidInput,
    MemoryClosed,
    MemoryNotFound,
    PageTokenInvalid,
    RequestIdReused,
    ScopeMissing,
    StoreFull,
)
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
    MemorySource,
    MemoryType,
    MemoryWrite,
)
from plait.domain.scope import Scope
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
from plait.retrieval.query.analysis import SearchQuery
from tests.contract.conftest import IndexFiles
from tests.memory_queries import query, search
from tests.waiting_texts import waiting_texts
from vector.index.merger import MERGE_EVERY
from vector.memories import requests
from vector.store import Store

T = "default"
HERE = MemoryFilter(repos=("r",))
NORTH, EAST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)


def write(
    content: str,
    request_id: str = "",
    *,
    repo: str = "r",
    agent: str = "a",
    session: str = "s",
    tags: tuple[str, ...] = (),
    supersedes: MemoryId | None = None,
    metadata: MemoryMetadata | None = None,
    **fields: Any,
) -> MemoryWrite:
    said = metadata or MemoryMetadata(session_key=session, tags=tags)
    entry = MemoryEntry(NO_ID, repo, agent, content, said, **fields)
    return check(entry, request_id or str(uuid4()), supersedes)


async def keep(store: Store, *writes: MemoryWrite, tenant: str = T) -> list[MemoryReceipt]:
    """The receipts of writes none of which may be refused."""
    out = await store.memories.store(tenant, writes)
    receipts = [one for one in out if isinstance(one, MemoryReceipt)]
    assert len(receipts) == len(writes)
    return receipts


async def contents(store: Store, where: MemoryFilter = HERE, **options: Any) -> list[str]:
    page = await store.memories.list(where, limit=1000, **options)
    return [entry.content for entry in page.entries]


def sql(dsn: str, query: str, *params: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait,public") as conn:
        return conn.execute(query.encode(), params).fetchall()


# -- storing ----------------------------------------------------------------------------------------


async def test_what_is_stored_comes_back_whole(store: Store) -> None:
    start, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
    meta = MemoryMetadata(MemorySource.USER, "s", ("x", "y"), 0.7, {"n": 1, "deep": [{"a": None}]})
    (receipt,) = await keep(
        store,
        write("tabs, not spaces", metadata=meta, type=MemoryType.PROCEDURAL, path="src/a.py",
              symbol="src.a.f", pinned=True, valid_from=start, valid_to=end),
    )  # fmt: skip
    entry = receipt.entry
    assert await store.memories.get(T, "r", entry.id) == entry
    assert (entry.metadata, entry.type, entry.path, entry.symbol, entry.pinned) == (
        replace(meta, importance=float(np.float32(0.7))), MemoryType.PROCEDURAL, "src/a.py",
        "src.a.f", True,
    )  # fmt: skip
    assert (entry.valid_from, entry.valid_to, entry.version) == (start, end, 1)
    assert entry.tokens > 0
    assert entry.created_at == entry.updated_at


async def test_a_batch_is_one_transaction(store: Store, truth_dsn: str) -> None:
    receipts = await keep(store, *(write(f"memory number {i} of many") for i in range(500)))
    assert len({r.entry.id for r in receipts}) == 500
    assert len({r.entry.created_at for r in receipts}) == 1
    assert sql(truth_dsn, "SELECT kind, cardinality(entries) FROM outbox") == [("memory", 500)]
    assert sql(truth_dsn, "SELECT count(*) FROM memory_request") == [(500,)]
    with pytest.raises(InvalidInput):
        await store.memories.store(T, [write(f"n {i}") for i in range(501)])


async def test_what_supersedes_nothing_is_refused_alone(store: Store, truth_dsn: str) -> None:
    nobody = MemoryId(uuid4())
    tables = ("item", "segment", "posting", "outbox", "memory_request", "memory_edge")
    (alone,) = await store.memories.store(T, [write("second", supersedes=nobody)])
    assert isinstance(alone, MemoryNotFound)
    for table in (*tables, "repository", "repo_clock"):
        assert sql(truth_dsn, f"SELECT count(*) FROM {table}") == [(0,)], table
    first, second = await store.memories.store(
        T, [write("first"), write("second", supersedes=nobody)]
    )
    assert isinstance(first, MemoryReceipt)
    assert isinstance(second, MemoryNotFound)
    assert await contents(store) == ["first"]
    assert sql(truth_dsn, "SELECT count(*) FROM memory_request") == [(1,)]


async def test_a_turn_is_stored_whole_or_not_at_all(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any) -> None:
        raise StoreFull("the disk is full")

    entries = [write("one", "q").entry, write("two", "q").entry]
    monkeypatch.setattr(requests, "record", full)
    with pytest.raises(StoreFull):
        await store.memories.store_turn(T, "r", "q", b"h", entries)
    for table in ("item", "segment", "posting", "outbox", "memory_request", "memory_edge"):
        assert sql(truth_dsn, f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_a_repeat_gets_the_first_answer(store: Store, truth_dsn: str) -> None:
    one = write("the build needs java 21", "q", tags=("a",))
    (first,) = await keep(store, one)
    await keep(store, write("the build needs java 21", tags=("b",)))  # a second version
    (again,) = await keep(store, one)
    assert again == replace(first, repeated=True)
    await store.memories.delete(T, "r", first.entry.id)
    (again,) = await keep(store, one)
    assert again == replace(first, repeated=True)
    assert sql(truth_dsn, "SELECT count(*) FROM memories") == [(2,)]


async def test_a_request_id_with_another_body_is_refused_alone(store: Store) -> None:
    await keep(store, write("one", "q1"))
    a, b, c = await store.memories.store(
        T, [write("two", "q1"), write("three", "q2"), write("four", "q2")]
    )
    assert isinstance(a, RequestIdReused)
    assert isinstance(b, MemoryReceipt)
    assert isinstance(c, RequestIdReused)
    assert sorted(await contents(store)) == ["one", "three"]


async def test_one_request_twice_in_a_batch(store: Store) -> None:
    one = write("only once", "q")
    a, b = await keep(store, one, one)
    assert (a.repeated, b.repeated) == (False, True)
    assert a.entry == b.entry


async def test_an_id_made_from_the_body_stores_again_what_was_deleted(store: Store) -> None:
    entry = MemoryEntry(NO_ID, "r", "a", "ports are 8000 and up")
    (first,) = await keep(store, check(entry))
    (again,) = await keep(store, check(entry))
    assert again.repeated
    assert again.entry.id == first.entry.id
    await store.memories.delete(T, "r", first.entry.id)
    (anew,) = await keep(store, check(entry))
    assert not anew.repeated
    assert anew.entry.id != first.entry.id
    assert await contents(store) == ["ports are 8000 and up"]


async def test_equal_texts_are_one_entry(store: Store, truth_dsn: str) -> None:
    (first,) = await keep(store, write("use uv", tags=("a", "b")))
    (second,) = await keep(
        store,
        write("use uv", metadata=MemoryMetadata(session_key="s", tags=("b", "c"), importance=0.9)),
    )
    assert second.duplicate
    assert second.entry.id == first.entry.id
    assert second.entry.metadata.tags == ("a", "b", "c")
    assert second.entry.metadata.importance == pytest.approx(0.9)
    assert (second.entry.version, second.entry.created_at) == (2, first.entry.created_at)
    (third,) = await keep(store, write("use uv", tags=("a",)))
    assert third.duplicate
    assert third.entry == second.entry  # nothing new: no new version
    assert await contents(store) == ["use uv"]
    (old,) = (
        await store.memories.list(HERE, limit=9, as_of=AsOf(recorded=first.entry.updated_at))
    ).entries
    assert old.metadata.tags == ("a", "b")
    assert sql(truth_dsn, "SELECT count(*) FROM outbox") == [(2,)]


async def test_equal_texts_of_one_batch_are_one_entry(store: Store) -> None:
    a, b, c = await keep(store, write("x y", tags=("1",)), write("x y", tags=("2",)), write("z"))
    assert (a.duplicate, b.duplicate, c.duplicate) == (False, True, False)
    assert a.entry == b.entry
    assert a.entry.metadata.tags == ("1", "2")
    assert a.entry.version == 1


async def test_scopes_keep_equal_texts_apart(store: Store) -> None:
    receipts = await keep(
        store, write("same"), write("same", agent="b"), write("same", session="t"),
        write("same", repo="r2"), write("same", path="a.py"),
    )  # fmt: skip
    assert len({r.entry.id for r in receipts}) == 5
    assert not any(r.duplicate for r in receipts)


async def test_a_duplicate_widens_the_valid_interval(store: Store) -> None:
    at = [datetime(2020, 1, day, tzinfo=UTC) for day in range(1, 9)]
    await keep(store, write("ci is red", valid_from=at[2], valid_to=at[4]))
    (second,) = await keep(store, write("ci is red", valid_from=at[0], valid_to=at[3]))
    assert (second.entry.valid_from, second.entry.valid_to) == (at[0], at[4])
    (third,) = await keep(store, write("ci is red"))
    assert (third.entry.valid_from, third.entry.valid_to) == (None, None)


async def test_the_same_text_from_many_sides_at_once(store: Store, other: Store) -> None:
    sides = [(store, other)[i % 2] for i in range(10)]
    receipts = await asyncio.gather(
        *(keep(s, write("race", tags=(f"t{i}",)), write(f"own {i}")) for i, s in enumerate(sides))
    )
    assert len({both[0].entry.id for both in receipts}) == 1
    (entry,) = (await store.memories.list(replace(HERE, tags_any=("t0",)), limit=9)).entries
    assert entry.metadata.tags == tuple(sorted(f"t{i}" for i in range(10)))
    assert len(await contents(store)) == 11


async def test_the_same_request_from_many_sides_at_once(
    store: Store, other: Store, truth_dsn: str
) -> None:
    one = write("once and for all", "q")
    sides = [(store, other)[i % 2] for i in range(8)]
    receipts = [r for rs in await asyncio.gather(*(keep(s, one) for s in sides)) for r in rs]
    assert [r.repeated for r in receipts].count(False) == 1
    assert len({r.entry.id for r in receipts}) == 1
    assert sql(truth_dsn, "SELECT count(*) FROM memories") == [(1,)]


async def test_superseding_closes_and_links(store: Store, truth_dsn: str) -> None:
    (old,) = await keep(store, write("deploy on fridays"))
    (new,) = await keep(store, write("never deploy on fridays", supersedes=old.entry.id))
    assert await contents(store) == ["never deploy on fridays"]
    with pytest.raises(MemoryNotFound):
        await store.memories.get(T, "r", old.entry.id)
    before = AsOf(recorded=old.entry.created_at)
    then = await store.memories.get(T, "r", old.entry.id, before)
    # What was answered before the closing is answered the same after it.
    assert then == replace(old.entry, embedding=then.embedding)
    where = MemoryFilter(repos=("r",))
    page = await store.memories.list(where, limit=9, include_superseded=True)
    (closed,) = [entry for entry in page.entries if entry.superseded_at is not None]
    assert (closed.id, closed.superseded_by) == (old.entry.id, new.entry.id)
    assert closed.superseded_at == new.entry.created_at
    assert await contents(store, as_of=before) == ["deploy on fridays"]
    edges = sql(
        truth_dsn,
        "SELECT source, target, recorded_to FROM memory_edge WHERE relation = 'SUPERSEDES'",
    )
    assert edges == [(f"memory/{new.entry.id}", f"memory/{old.entry.id}", None)]
    # What was answered before the closing is answered the same after it.
    assert (await store.memories.get(T, "r", old.entry.id, before)).superseded_by is None


async def test_a_place_that_is_taken_is_not_taken_again(store: Store, truth_dsn: str) -> None:
    (a,) = await keep(store, write("deploy on fridays"))
    first = write("never deploy on fridays", "q", supersedes=a.entry.id)
    (b,) = await keep(store, first)
    late = write("deploy on mondays", "late", supersedes=a.entry.id)
    (refused,) = await store.memories.store(T, [late])
    assert isinstance(refused, MemoryClosed)
    assert b.entry.created_at is not None
    assert refused.metadata == {
        "id": str(a.entry.id),
        "superseded_at": b.entry.created_at.isoformat(),
        "superseded_by": str(b.entry.id),
    }
    assert await contents(store) == ["never deploy on fridays"]
    # By the id of a version that is closed, too; and the entry's own text is no way round.
    (own,) = await store.memories.store(T, [write("deploy on fridays", supersedes=a.entry.id)])
    assert isinstance(own, MemoryClosed)
    # Repeats get their answers: the same request, and the same said by somebody else.
    assert await keep(store, first) == [replace(b, repeated=True)]
    (same,) = await keep(store, write("never deploy on fridays", supersedes=a.entry.id))
    assert (same.entry.id, same.duplicate) == (b.entry.id, True)
    ((edges,),) = sql(truth_dsn, "SELECT count(*) FROM memory_edge WHERE relation = 'SUPERSEDES'")
    assert edges == 1
    # What was refused was not answered: the id serves the corrected request.
    (c,) = await keep(store, write("deploy on mondays", "late", supersedes=b.entry.id))
    assert await contents(store) == ["deploy on mondays"]
    assert c.entry.version == 1


async def test_what_was_deleted_is_not_superseded(store: Store) -> None:
    (a,) = await keep(store, write("deploy on fridays"))
    await store.memories.delete(T, "r", a.entry.id)
    (refused,) = await store.memories.store(T, [write("never", supersedes=a.entry.id)])
    assert isinstance(refused, MemoryClosed)
    assert refused.metadata["superseded_by"] == ""
    assert "deleted" in refused.message


async def test_in_one_batch_the_first_takes_the_place(store: Store) -> None:
    (a,) = await keep(store, write("a"))
    b, c, d, b_again = await store.memories.store(
        T,
        [
            write("b", "b", supersedes=a.entry.id),
            write("c", "c", supersedes=a.entry.id),
            write("d"),
            write("b", "b2", supersedes=a.entry.id),
        ],
    )
    assert isinstance(b, MemoryReceipt)
    assert isinstance(c, MemoryClosed)
    assert c.metadata["superseded_by"] == str(b.entry.id)
    assert isinstance(d, MemoryReceipt)
    assert isinstance(b_again, MemoryReceipt)
    assert (b_again.entry.id, b_again.duplicate) == (b.entry.id, True)
    assert sorted(await contents(store)) == ["b", "d"]


async def test_writers_at_once_leave_one_in_the_place(store: Store, other: Store) -> None:
    (a,) = await keep(store, write("a"))
    answers = await asyncio.gather(
        *(
            s.memories.store(T, [write(f"{i}", supersedes=a.entry.id)])
            for i in range(4)
            for s in (store, other)
        )
    )
    stored = [one for (one,) in answers if isinstance(one, MemoryReceipt)]
    assert len({r.entry.id for r in stored}) == 1
    assert all(isinstance(one, MemoryReceipt | MemoryClosed) for (one,) in answers)
    assert len(await contents(store)) == 1


async def test_one_request_twice_at_once_is_answered_twice(store: Store, other: Store) -> None:
    for n in range(4):
        (a,) = await keep(store, write(f"a {n}"))
        one = write(f"b {n}", f"q{n}", supersedes=a.entry.id)
        answers = await asyncio.gather(
            *(s.memories.store(T, [one]) for s in (store, other, store, other))
        )
        receipts = [r for (r,) in answers if isinstance(r, MemoryReceipt)]
        assert len(receipts) == 4
        assert len({r.entry.id for r in receipts}) == 1


async def unread(
    store: Store, id_: MemoryId, as_of: AsOf = NOW, *, repo: str = "r", tenant: str = T
) -> MemoryNotFound:
    with pytest.raises(MemoryNotFound) as caught:
        await store.memories.get(tenant, repo, id_, as_of)
    assert caught.value.reason == "MEMORY_NOT_FOUND"
    return caught.value


async def test_a_get_says_why_it_does_not_see_a_memory(store: Store) -> None:
    (a,) = await keep(store, write("a"))
    (b,) = await keep(store, write("b", supersedes=a.entry.id))
    assert b.entry.created_at is not None
    assert a.entry.created_at is not None
    error = await unread(store, a.entry.id)
    assert error.metadata["superseded_by"] == str(b.entry.id)
    assert error.metadata["superseded_at"] == b.entry.created_at.isoformat()
    assert f"superseded by {b.entry.id}" in error.message
    assert "--recorded-as-of` (`recorded_as_of`) a time before that" in error.message
    await store.memories.delete(T, "r", b.entry.id)
    assert "deleted" in (await unread(store, b.entry.id)).message
    early = AsOf(recorded=a.entry.created_at - timedelta(microseconds=1))
    assert "it was stored at" in (await unread(store, a.entry.id, early)).message
    # At a time before the closing, nothing says that it came.
    future = AsOf(valid=datetime(2000, 1, 1, tzinfo=UTC), recorded=a.entry.created_at)
    (c,) = await keep(store, write("c", valid_from=datetime(2030, 1, 1, tzinfo=UTC)))
    error = await unread(store, c.entry.id, replace(future, recorded=None))
    assert "valid from 2030-01-01T00:00:00+00:00 to further on" in error.message
    assert error.metadata["valid_to"] == ""
    nothing = await unread(store, MemoryId(uuid4()))
    assert "no memory" in nothing.message


async def test_why_is_told_in_the_repository_named_only(store: Store) -> None:
    (a,) = await keep(store, write("a"))
    await store.memories.delete(T, "r", a.entry.id)
    await keep(store, write("x", repo="r2"))
    await keep(store, write("x", repo="acme@r"), tenant="acme")
    for tenant, repo in ((T, "r2"), ("acme", "acme@r"), ("acme", "r"), (T, "gone")):
        error = await unread(store, a.entry.id, repo=repo, tenant=tenant)
        assert error.message == MemoryNotFound(a.entry.id, repo).message
        assert set(error.metadata) == {"id", "repo"}


async def test_an_entry_that_supersedes_itself_is_corrected(store: Store) -> None:
    (old,) = await keep(store, write("it is so", tags=("wrong",)))
    (new,) = await keep(store, write("it is so", tags=("right",), supersedes=old.entry.id))
    assert new.entry.id == old.entry.id
    assert new.entry.metadata.tags == ("right",)
    assert (new.entry.version, new.duplicate) == (2, False)


async def test_delete_closes_and_twice_is_no_error(store: Store, truth_dsn: str) -> None:
    (one,) = await keep(store, write("gone soon"))
    await store.memories.delete(T, "r", one.entry.id)
    await store.memories.delete(T, "r", one.entry.id)
    assert await contents(store) == []
    assert await contents(store, as_of=AsOf(recorded=one.entry.created_at)) == ["gone soon"]
    assert await contents(store, include_superseded=True) == ["gone soon"]
    assert sql(truth_dsn, "SELECT count(*) FROM outbox") == [(2,)]
    for repo, id_ in (("r", uuid4()), ("r2", one.entry.id)):
        with pytest.raises(MemoryNotFound):
            await store.memories.delete(T, repo, MemoryId(id_))


async def test_an_entry_is_found_by_the_id_of_any_version(store: Store, truth_dsn: str) -> None:
    (one,) = await keep(store, write("found", tags=("a",)))
    await keep(store, write("found", tags=("b",)))
    ids = [row[0] for row in sql(truth_dsn, "SELECT id FROM memories ORDER BY version")]
    assert ids[0] == one.entry.id
    entries = [await store.memories.get(T, "r", MemoryId(id_)) for id_ in ids]
    assert entries[0] == entries[1]
    assert entries[0].version == 2


async def test_what_postgresql_cannot_hold_says_so(store: Store) -> None:
    with pytest.raises(InvalidInput):
        await store.memories.list(MemoryFilter(repos=("r\0",)), limit=1)


# -- links --------------------------------------------------------------------------------------------


async def test_near_duplicates_are_linked_never_merged(store: Store, truth_dsn: str) -> None:
    text = "run the integration tests with make check before every push to main please"
    (one,) = await keep(store, write(text))
    (near, far, elsewhere) = await keep(
        store,
        write(text.replace("please", "always")),
        write("the moon is far away from the integration tests"),
        write(text + "!", agent="b"),
    )
    assert near.similar == (one.entry.id,)
    assert (far.similar, elsewhere.similar) == ((), ())
    assert len(await contents(store)) == 4
    rows = sql(truth_dsn, "SELECT source, target FROM memory_edge WHERE relation = 'SIMILAR_TO'")
    assert rows == [(f"memory/{near.entry.id}", f"memory/{one.entry.id}")]


async def test_near_duplicates_inside_a_batch(store: Store) -> None:
    text = "run the integration tests with make check before every push to main"
    a, b = await keep(store, write(text + " now"), write(text + " again"))
    assert a.similar == ()
    assert b.similar == (a.entry.id,)


async def test_near_duplicates_by_vectors_once_they_are_there(store: Store, truth_dsn: str) -> None:
    await store.vectors.ensure_space("m", 4)
    a, b, c = await keep(store, write("start the server"), write("boot the daemon"), write("other"))
    pending = await waiting_texts(store, "r", 10)
    vectors = {"start the server": NORTH, "boot the daemon": (1.0, 0.02, 0.0, 0.0), "other": EAST}
    hashes = [p.content_hash for p in pending]
    found = [next(v for k, v in vectors.items() if k in p.text) for p in pending]
    assert await store.memories.link_similar("r", hashes) == 0
    await store.vectors.store_vectors(hashes, np.array(found, np.float32))
    assert await store.memories.link_similar("r", hashes) == 1
    assert await store.memories.link_similar("r", hashes) == 0
    rows = sql(truth_dsn, "SELECT source, target, resolver FROM memory_edge")
    assert rows == [(f"memory/{b.entry.id}", f"memory/{a.entry.id}", "vectors")]
    assert c.similar == ()
    # A link ends with either of its ends.
    await store.memories.delete(T, "r", a.entry.id)
    assert sql(truth_dsn, "SELECT count(*) FROM memory_edge WHERE recorded_to IS NULL") == [(0,)]


async def test_code_that_a_memory_names_is_linked(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    files = {"src/app.toy": ["parse_url:", "send_all: parse_url"], "src/b.toy": ["send_all:"]}
    await index(store, "r", files)
    (one,) = await keep(
        store,
        write("In src/app.toy parse_url() fails; send_all is in two files, nothing.toy in none",
              path="src/b.toy"),
    )  # fmt: skip
    rows = sql(
        truth_dsn,
        "SELECT target, resolver, path FROM memory_edge WHERE relation = 'MENTIONS' AND source = %s"
        " ORDER BY target",
        f"memory/{one.entry.id}",
    )
    assert rows == [
        ("/src/app.toy", "text", "src/app.toy"),
        ("/src/b.toy", "anchor", "src/b.toy"),
        ("src.app.parse_url", "text", "src/app.toy"),
    ]


# -- lists ----------------------------------------------------------------------------------------------


async def test_pages_hold_every_entry_once_newest_first(store: Store) -> None:
    for i in range(7):
        await keep(store, *(write(f"entry {i} {j}") for j in range(3)))
    whole = (await store.memories.list(HERE, limit=1000)).entries
    assert len(whole) == 21
    keys = [(e.created_at, e.id) for e in whole if e.created_at is not None]
    assert keys == sorted(keys, reverse=True)
    token, pages = "", []
    while True:
        page = await store.memories.list(HERE, limit=4, after=token)
        pages.append(page.entries)
        token = page.next
        if not token:
            break
        # What is written meanwhile, or changed, moves nothing.
        await keep(
            store, write(f"late {len(pages)}", repo="r"), write("entry 3 1", tags=(token[:9],))
        )
    assert [e.id for p in pages for e in p] == [e.id for e in whole]


async def test_a_token_of_another_question_is_refused(store: Store) -> None:
    await keep(store, *(write(f"entry {i}") for i in range(3)))
    token = (await store.memories.list(HERE, limit=1)).next
    for where, bad in (
        (replace(HERE, agent_id="a"), token),
        (HERE, token[:-3]),
        (HERE, "ä"),
        (HERE, "!"),
    ):
        with pytest.raises(PageTokenInvalid):
            await store.memories.list(where, limit=1, after=bad)


async def test_no_repository_is_never_all_of_them(store: Store) -> None:
    await keep(store, write("here"), write("there", repo="r2"))
    with pytest.raises(ScopeMissing):
        await store.memories.list(MemoryFilter(), limit=1)
    with pytest.raises(ScopeMissing):
        await query(store, "here", None, MemoryQueryOptions(MemoryFilter()))
    assert sorted(await contents(store, MemoryFilter(all_repos=True))) == ["here", "there"]
    assert await contents(store, MemoryFilter(repos=("r2", "none"))) == ["there"]


@pytest.mark.parametrize(
    ("narrow", "expected"),
    [
        ({"agent_id": "a"}, {"1", "2"}),
        ({"session_key": "t"}, {"2", "3"}),
        ({"tags_any": ("x", "z")}, {"1", "2"}),
        ({"tags_all": ("x", "y")}, {"2"}),
        ({"sources": (MemorySource.USER, MemorySource.SYSTEM)}, {"1", "3"}),
        ({"types": (MemoryType.EPISODIC,)}, {"2"}),
        ({"kinds": ("turn",)}, {"3"}),
        ({"importance_min": 0.7}, {"2", "3"}),
        ({"agent_id": "a", "tags_any": ("y",)}, {"2"}),
    ],
)
async def test_filters(store: Store, narrow: dict[str, Any], expected: set[str]) -> None:
    """The same of a listing and of a query."""
    user, agent, system = MemorySource.USER, MemorySource.AGENT, MemorySource.SYSTEM
    await keep(
        store,
        write("zebra 1", metadata=MemoryMetadata(user, "s", ("x",), 0.2)),
        write(
            "zebra 2",
            metadata=MemoryMetadata(agent, "t", ("x", "y"), 0.7),
            type=MemoryType.EPISODIC,
        ),
        write("zebra 3", metadata=MemoryMetadata(system, "t", ("w",), 1.0), agent="b", kind="turn"),
    )
    where = replace(HERE, **narrow)
    assert {text[-1] for text in await contents(store, where)} == expected
    assert {text[-1] for text in await ask(store, "zebra", where=where)} == expected


async def test_created_after_is_inclusive_and_before_exclusive(store: Store) -> None:
    (a,), (b,) = [await keep(store, write("zebra a")), await keep(store, write("zebra b"))]
    at = b.entry.created_at
    after, before = replace(HERE, created_after=at), replace(HERE, created_before=at)
    assert await contents(store, after) == await ask(store, "zebra", where=after) == ["zebra b"]
    assert await contents(store, before) == await ask(store, "zebra", where=before) == ["zebra a"]
    assert a.entry.created_at is not None
    assert at is not None
    assert a.entry.created_at < at


async def test_what_does_not_hold_now_is_not_read_as_of_now(store: Store) -> None:
    now = datetime.now(UTC)
    hour = timedelta(hours=1)
    await keep(
        store,
        write("over", valid_to=now - hour),
        write("to come", valid_from=now + hour),
        write("holds", valid_from=now - hour, valid_to=now + hour),
    )
    assert await contents(store) == ["holds"]
    assert await contents(store, as_of=AsOf(valid=now - 2 * hour)) == ["over"]
    assert set(await contents(store, as_of=AsOf(valid=now + 2 * hour))) == {"to come"}
    assert len(await contents(store, include_superseded=True)) == 3


async def test_notes_of_episodes_are_memories_too(store: Store) -> None:
    note = Artifact(ArtifactKind.NOTE, "remember the milk")
    await store.episodes.append(
        Episode("e1", "r", Outcome("success"), [note], agent_id="a", body_hash=b"h")
    )
    (entry,) = (await store.memories.list(replace(HERE, kinds=("note",)), limit=9)).entries
    assert entry.content == "remember the milk"
    await store.memories.delete(T, "r", entry.id)
    assert await contents(store) == []


# -- queries ----------------------------------------------------------------------------------------------


async def ask(store: Store, text: str, vector: Any = None, **options: Any) -> list[str]:
    where = options.pop("where", HERE)
    asked = None if vector is None else np.array(vector, np.float32)
    found = await query(store, text, asked, MemoryQueryOptions(where, **options))
    assert all(0.0 <= match.score <= 1.0 for match in found)
    assert [m.score for m in found] == sorted((m.score for m in found), reverse=True)
    return [match.entry.content for match in found]


async def test_words_alone_find(store: Store) -> None:
    await keep(store, write("the zebra sleeps"), write("a cat eats"), write("a dog eats"))
    assert await ask(store, "zebra") == ["the zebra sleeps"]
    assert set(await ask(store, "what eats the zebra")) == {
        "the zebra sleeps", "a cat eats", "a dog eats",
    }  # fmt: skip
    assert await ask(store, "nothing like it") == []


async def test_a_hit_by_words_alone_enters_beside_vectors(store: Store) -> None:
    await store.vectors.ensure_space("m", 4)
    await keep(
        store,
        write("start the daemon", embedding=NORTH),
        write("the zebra has no vector"),
        write("far away", embedding=EAST),
    )
    found = await ask(store, "zebra", NORTH, top_k=2)
    assert set(found) == {"the zebra has no vector", "start the daemon"}
    assert await ask(store, "", NORTH, top_k=1) == ["start the daemon"]


async def test_an_entry_without_a_vector_is_known_to_wait(store: Store) -> None:
    await store.vectors.ensure_space("m", 4)
    here, other = MemoryQueryOptions(HERE), MemoryQueryOptions(replace(HERE, agent_id="b"))
    assert not await store.memories.unembedded(here)
    await keep(store, write("start the daemon", embedding=NORTH))
    assert not await store.memories.unembedded(here)
    (waits,) = await keep(store, write("the zebra has no vector"))
    assert await store.memories.unembedded(here)
    assert not await store.memories.unembedded(other)
    assert waits.entry.created_at is not None
    before = AsOf(recorded=waits.entry.created_at - timedelta(seconds=1))
    assert not await store.memories.unembedded(replace(here, as_of=before))
    with pytest.raises(ScopeMissing):
        await store.memories.unembedded(MemoryQueryOptions(MemoryFilter()))


async def test_filters_work_inside_a_query(store: Store) -> None:
    await keep(
        store,
        *(write(f"zebra {i}", agent="b") for i in range(300)),
        *(write(f"some zebra in a much longer text about other things {i}") for i in range(5)),
    )
    assert len(await ask(store, "zebra", where=replace(HERE, agent_id="a"), top_k=10)) == 5
    assert len(await ask(store, "zebra", top_k=200)) == 200


@pytest.mark.parametrize("agent", ["", "b"])
async def test_of_many_memories_a_filter_that_keeps_few_finds_all_of_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """The index looks at the nearest alone, of which the filter may keep none."""
    monkeypatch.setattr("vector.search.nearest_agents.EXACT_ROWS", 2)
    await store.vectors.ensure_space("m", 4)
    near = [(1.0, 0.1 * i, 0.0, 0.0) for i in range(60)]
    await keep(
        store,
        *(
            write(f"memory {i}", agent="b" if i >= 57 else "a", embedding=vector)
            for i, vector in enumerate(near)
        ),
    )
    found = await ask(store, "", NORTH, where=replace(HERE, agent_id=agent))
    assert sorted(found) == sorted(f"memory {i}" for i in (range(57, 60) if agent else range(10)))


async def test_min_score_cuts_after_the_arms_are_united(store: Store) -> None:
    best = "a zebra behind a zebra behind a zebra"  # as long: texts of few words count less
    await keep(store, write(best), write("one zebra among very many other words"))
    assert len(await ask(store, "zebra")) == 2
    assert await ask(store, "zebra", min_score=0.99) == [best]


async def test_importance_and_recency_decide_between_equals(store: Store) -> None:
    """As in a search: 0.7 of similarity, 0.2 of importance, 0.1 of recency."""
    user, now = MemorySource.USER, datetime.now(UTC)
    await keep(
        store,
        write("the zebra sleeps", agent="old", session="", valid_from=now - timedelta(days=900)),
        write("the zebra sleeps", agent="new", session="", valid_from=now - timedelta(days=1)),
        write(
            "the zebra sleeps",
            agent="important",
            valid_from=now - timedelta(days=900),
            metadata=MemoryMetadata(user, importance=0.9),
        ),
    )
    matches = await query(store, "zebra", None, MemoryQueryOptions(HERE))
    assert [m.entry.agent_id for m in matches] == ["new", "important", "old"]
    worth = {m.entry.agent_id: m.score for m in matches}
    assert worth["important"] / worth["old"] == pytest.approx((0.7 + 0.18) / (0.7 + 0.1), rel=0.01)
    assert worth["new"] / worth["old"] == pytest.approx((0.7 + 0.1 + 0.1) / (0.7 + 0.1), rel=0.01)
    where = Filter(repos=("r",), collections=(Collection.MEMORIES,))
    searched = await search(store, SearchQuery("zebra", where))
    assert [(MemoryId(hit.item.id), hit.score) for hit in searched.hits] == [
        (m.entry.id, m.score) for m in matches
    ]


async def test_a_repository_of_which_nothing_is_there_has_no_matches(store: Store) -> None:
    await keep(store, write("the zebra sleeps"))
    assert await ask(store, "zebra", where=MemoryFilter(repos=("none",))) == []
    assert await ask(store, "zebra", where=MemoryFilter(repos=("none", "r"))) == [
        "the zebra sleeps"
    ]


async def test_queries_as_of_a_time(store: Store) -> None:
    (old,) = await keep(store, write("the zebra is white"))
    (new,) = await keep(store, write("the zebra is striped", supersedes=old.entry.id))
    await store.memories.delete(T, "r", new.entry.id)
    assert await ask(store, "zebra") == []
    assert await ask(store, "zebra", as_of=AsOf(recorded=old.entry.created_at)) == [
        "the zebra is white"
    ]
    assert await ask(store, "zebra", as_of=AsOf(recorded=new.entry.created_at)) == [
        "the zebra is striped"
    ]


async def test_each_entry_is_one_match_whatever_its_versions(store: Store) -> None:
    for i in range(5):
        await keep(store, write("the zebra", tags=(f"t{i}",)))
    assert await ask(store, "zebra") == ["the zebra"]


@pytest.mark.parametrize(
    ("text", "options"), [(" ", {}), ("x", {"top_k": 0}), ("x", {"min_score": 1.5})]
)
async def test_queries_that_make_no_sense(store: Store, text: str, options: Any) -> None:
    with pytest.raises(InvalidInput):
        await ask(store, text, **options)


# -- vectors --------------------------------------------------------------------------------------------------


async def test_versions_are_read_by_their_ids_in_the_order_asked(store: Store) -> None:
    (one,) = await keep(store, write("x", tags=("a",)))
    (two,) = await keep(store, write("y"))
    (again,) = await keep(store, write("x", tags=("b",)))
    assert again.entry.version == 2
    ids = [ItemId(two.entry.id), ItemId(one.entry.id), ItemId(uuid4())]
    found = await store.memories.versions(T, ids)
    assert list(found) == ids[:2]
    assert found[ids[1]].superseded_at is not None
    then = AsOf(recorded=one.entry.created_at)
    assert (await store.memories.versions(T, ids, then))[ids[1]].superseded_at is None
    assert await store.memories.versions("acme", ids) == {}


async def test_vectors_of_another_model_are_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        await keep(store, write("x", embedding=NORTH))
    await store.vectors.ensure_space("m", 4)
    with pytest.raises(EmbeddingModelMismatch):
        await keep(store, write("x", embedding=(1.0, 0.0)))
    (one,) = await keep(store, write("x", embedding=(2.0, 0.0, 0.0, 0.0)))
    assert (await store.memories.get(T, "r", one.entry.id)).embedding == NORTH
    with pytest.raises(EmbeddingModelMismatch):
        await ask(store, "x", (1.0, 0.0))
    with pytest.raises(EmbeddingModelMismatch):
        await store.vectors.ensure_space("other", 4)


async def test_a_new_version_has_its_vector_at_once(store: Store) -> None:
    await store.vectors.ensure_space("m", 4)
    (one,) = await keep(store, write("x", tags=("a",), embedding=NORTH))
    await keep(store, write("x", tags=("b",)))
    entry = await store.memories.get(T, "r", one.entry.id)
    assert (entry.version, entry.embedding) == (2, NORTH)
    assert await waiting_texts(store, "r", 10) == []


# -- what comes back ------------------------------------------------------------------------------------------


async def test_recalled(store: Store) -> None:
    one, _ = await keep(store, write("Always run `make check`, then push."), write("Über uns 東京"))
    said = ["always run make check then push", "Run make check", "", "...", "über UNS: 東京"]
    scope = Scope(T, "r", "a")
    assert list(await store.memories.recalled(scope, said)) == [True, False, False, False, True]
    assert not any(await store.memories.recalled(Scope(T, "r", "b"), said))
    assert not any(await store.memories.recalled(Scope(T, "r2"), said))
    assert not any(await store.memories.recalled(Scope("acme", "r", "a"), said))
    await store.memories.delete(T, "r", one.entry.id)
    assert list(await store.memories.recalled(scope, said[:1])) == [False]


async def test_a_turn_is_stored_once_with_all_it_led_to(store: Store, truth_dsn: str) -> None:
    entries = [write("from a turn").entry, write("and more").entry]
    first = await store.memories.store_turn(T, "r", "q", b"h", entries)
    again = await store.memories.store_turn(T, "r", "q", b"h", entries[:1])
    assert not first.repeated
    assert again == replace(first, repeated=True)
    assert await store.memories.turn(T, "q", b"h") == again
    assert await store.memories.turn(T, "none", b"h") is None
    with pytest.raises(RequestIdReused):
        await store.memories.turn(T, "q", b"other")
    with pytest.raises(RequestIdReused):
        await store.memories.store_turn(T, "r", "q", b"other", entries)
    assert sql(truth_dsn, "SELECT count(*) FROM memory_request") == [(1,)]


async def test_a_turn_that_led_to_nothing_is_remembered_as_such(store: Store) -> None:
    first = await store.memories.store_turn(T, "r", "q", b"h", [], "trivial")
    assert (first.receipts, first.note) == ((), "trivial")
    assert await store.memories.turn(T, "q", b"h") == replace(first, repeated=True)


# -- tenants --------------------------------------------------------------------------------------------------


async def test_nothing_crosses_between_tenants(store: Store) -> None:
    (mine,) = await keep(store, write("the secret zebra", "q"))
    (theirs,) = await keep(store, write("the secret zebra", "q", repo="acme@r"), tenant="acme")
    assert not theirs.repeated
    assert theirs.entry.id != mine.entry.id
    acme = MemoryFilter(tenant="acme", all_repos=True)
    assert [e.id for e in (await store.memories.list(acme, limit=9)).entries] == [theirs.entry.id]
    assert await contents(store, MemoryFilter(tenant="acme", repos=("r",))) == []
    assert [m.entry.id for m in await query(store, "zebra", None, MemoryQueryOptions(acme))] == [
        theirs.entry.id
    ]
    with pytest.raises(MemoryNotFound):
        await store.memories.get("acme", "r", mine.entry.id)
    with pytest.raises(MemoryNotFound):
        await store.memories.delete("acme", "acme@r", mine.entry.id)
    (refused,) = await store.memories.store(
        "acme", [write("x", repo="acme@r", supersedes=mine.entry.id)]
    )
    assert isinstance(refused, MemoryNotFound)
    assert (await store.memories.get(T, "r", mine.entry.id)).content == "the secret zebra"


async def test_segments_stay_few(store: Store, truth_dsn: str) -> None:
    for i in range(40):
        await keep(store, write(f"zebra {i}"))
    # Merging goes on behind the answers, once every few of them: with nothing else at work the next
    # ones see to the rest.
    for i in range(40, 40 + MERGE_EVERY):
        await store.merger.finished()
        await keep(store, write(f"zebra {i}"))
    await store.merger.finished()
    assert len(await ask(store, "zebra", top_k=100)) == 40 + MERGE_EVERY
    ((segments,),) = sql(truth_dsn, "SELECT count(*) FROM segment WHERE replaced_at IS NULL")
    assert segments <= 24


async def test_ids_are_of_the_memory_and_nobody_elses(store: Store) -> None:
    (one,) = await keep(store, write("x"))
    assert one.entry.id != NO_ID
    assert isinstance(one.entry.id, UUID)
