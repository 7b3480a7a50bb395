"""What memories cost does not grow with how many there are: plans, bounds and counts, no times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
import pytest

from plait.domain.errors import PlaitError
from plait.domain.memory import MemoryFilter
from plait.domain.values import Collection, Filter
from plait.retrieval.memory_query import in_memories
from server.background_jobs.embedder import Embedder
from tests.contract.test_memory_store import HERE, keep, sql, write
from tests.processes import eventually
from vector.connection.pool import Database, Scoped
from vector.index import growing_index, queue, segments
from vector.index.segments import MAX_SEGMENTS
from vector.memories import similar
from vector.search import nearest_agents, tagged
from vector.search.filters import condition
from vector.store import Store

DIM = 8
MEMORIES = Filter(repos=("r",), collections=(Collection.MEMORIES,))


class Model:
    """A vector for each number that a text ends with; one that says `again` is a near-duplicate."""

    model, dim = "m", DIM

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.array([self._of(text) for text in texts], np.float32)

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return self._of(text)

    async def close(self) -> None:
        return None

    def _of(self, text: str) -> npt.NDArray[np.float32]:
        number = int(last) if (last := text.rpartition(" ")[2]).isdigit() else 0
        made = np.random.default_rng(number).standard_normal(DIM)
        if "again" in text:
            made += 0.01
        return (made / np.linalg.norm(made)).astype(np.float32)


def embedder(store: Store) -> Embedder:
    async def opened() -> Model:
        return Model()

    return Embedder(store.vectors, store.memories, store.repositories, store.search, opened)


async def said(store: Store, n: int, agents: int = 1) -> None:
    """`n` memories with few words in common, in turn by so many agents."""
    for at in range(0, n, 500):
        numbers = range(at, min(n, at + 500))
        writes = [write(f"w{i}a w{i}b w{i}c {i}", agent=f"agent{i % agents}") for i in numbers]
        await keep(store, *writes)
    await store.merger.finished()


@pytest.fixture
def index_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_index, "INDEX_FROM_ROWS", 200)


async def plan(db: Database, query: str, params: dict[str, Any], *before: str) -> str:
    async with db.transaction() as conn:
        for statement in before:
            await conn.execute(statement.encode())
        cursor = await conn.execute(
            f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}".encode(), params, prepare=False
        )
        return "\n".join(row[0] for row in await cursor.fetchall())


# -- vectors ----------------------------------------------------------------------------------------


async def test_the_embedder_indexes_a_collection_that_has_grown(
    store: Store, truth_dsn: str, index_early: None
) -> None:
    await said(store, 600, agents=3)
    job, stop = embedder(store), asyncio.Event()
    job.add(["r"])
    running = asyncio.create_task(job.run_forever(stop))

    async def built() -> str | None:
        ask = "SELECT indexdef FROM pg_indexes JOIN pg_index ON indexrelid = to_regclass('plait.' || indexname)"
        found = sql(truth_dsn, f"{ask} WHERE indexname = 'memories_embedding_8' AND indisvalid")
        return str(found[0][0]) if found else None

    definition = await eventually(built)
    await eventually(lambda: _none_waits(store))
    stop.set()
    await running
    assert "m='16'" in definition
    assert "ef_construction='64'" in definition


async def _none_waits(store: Store) -> bool:
    return not await store.vectors.pending("r", 10)


async def test_an_index_that_a_killed_process_left_half_built_is_built_again(
    store: Store, truth_dsn: str, index_early: None
) -> None:
    await said(store, 300)
    await store.vectors.ensure_space("m", DIM)
    sql(truth_dsn, "UPDATE embedding_space SET filled = true RETURNING 1")
    with pytest.raises(
        psycopg.errors.UniqueViolation
    ):  # what fails half-way stays, and is not used
        sql(
            truth_dsn, "CREATE UNIQUE INDEX CONCURRENTLY memories_embedding_8 ON memories (repo_id)"
        )
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'memories_embedding_8'::regclass"
    assert sql(truth_dsn, valid) == [(False,)]
    await store.vectors.index_agents()
    assert sql(truth_dsn, valid) == [(True,)]


async def test_two_processes_build_one_index(
    store: Store, other: Store, truth_dsn: str, index_early: None
) -> None:
    await said(store, 300)
    await store.vectors.ensure_space("m", DIM)
    sql(truth_dsn, "UPDATE embedding_space SET filled = true RETURNING 1")
    with psycopg.connect(truth_dsn) as conn:
        conn.execute("SELECT pg_advisory_lock(%s, 0)", (0x504C0006,))
        await other.vectors.index_agents()  # leaves it to who has the lock
        assert sql(truth_dsn, "SELECT to_regclass('memories_embedding_8')") == [(None,)]
    await store.vectors.index_agents()
    assert sql(truth_dsn, "SELECT to_regclass('memories_embedding_8') IS NULL") == [(False,)]


async def test_a_round_of_the_embedder_reads_its_texts_and_not_all_that_wait(store: Store) -> None:
    await said(store, 1_000)
    made = await plan(store.db, queue.AGENTS_PENDING, {"repo": "r", "limit": 50})
    read = [line for line in made.splitlines() if "memories_waiting" in line]
    assert len(read) == 1, made
    assert "rows=50" in read[0], made
    first = await store.vectors.pending("r", 50)
    assert [one.text.rpartition(" ")[2] for one in first] == [str(i) for i in range(50)]


async def test_equal_texts_in_a_round_end_no_run_of_the_embedder(store: Store) -> None:
    await keep(store, *(write("the same", session=f"s{i}") for i in range(300)))
    await keep(store, *(write(f"other {i}") for i in range(5)))
    job = embedder(store)
    job.add(["r"])
    assert await job.run_until_idle() == 6
    assert await store.vectors.pending("r", 10) == []


# -- near-duplicates --------------------------------------------------------------------------------


async def test_near_duplicates_are_the_same_by_the_index_as_one_by_one(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch, index_early: None
) -> None:
    await said(store, 1_000)
    await keep(
        store, *(write(f"again, otherwise {i}", agent="agent0") for i in range(0, 1_000, 20))
    )
    links = "SELECT target FROM memory_edge WHERE resolver = 'vectors'"
    found = []
    for exact_rows in (similar.EXACT_ROWS, 10):
        monkeypatch.setattr(similar, "EXACT_ROWS", exact_rows)
        sql(truth_dsn, "UPDATE memories SET embedding = NULL RETURNING 1")
        sql(truth_dsn, "DELETE FROM memory_edge RETURNING 1")
        job = embedder(store)
        job.add(["r"])
        await job.run_until_idle()
        found.append(set(sql(truth_dsn, links)))
    assert len(found[0]) >= 50
    assert len(found[0] & found[1]) >= 0.98 * len(found[0])


async def test_a_memory_is_compared_with_a_bounded_number_of_others(
    store: Store, monkeypatch: pytest.MonkeyPatch, index_early: None
) -> None:
    """Of one agent with many by the index; of many agents with few each with those alone."""
    await said(store, 1_000, agents=2)
    await keep(store, *(write(f"few {i}", agent=f"one{i % 100}") for i in range(3_000, 3_200)))
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    await store.vectors.index_agents()
    ((repo, hashes),) = await store.db.rows(
        "SELECT repo_id, array_agg(content_hash) FROM (SELECT * FROM memories LIMIT 1) m"
        " GROUP BY repo_id", {},
    )  # fmt: skip
    given = {
        "repo": repo,
        "hashes": hashes,
        "agents": ["agent0"],
        "most": 10,
        "equal": 10,
        "least": 0.9,
    }
    by_index = similar.PAIRS.format(nearest=similar.BY_INDEX.format(dim=DIM))
    made = await plan(store.db, by_index, given, "SET LOCAL enable_sort = off")
    assert "memories_embedding_8" in made
    each = await plan(store.db, similar.PAIRS.format(nearest=similar.EACH), given)
    assert "memories_embedding_8" not in each
    monkeypatch.setattr(similar, "EXACT_ROWS", 200)
    agents = await store.db.rows(similar.AGENTS, {**given, "exact": similar.EXACT_ROWS})
    assert agents == [("agent0", True)]


async def test_a_text_of_many_sessions_is_linked_a_bounded_number_of_times(
    store: Store, truth_dsn: str
) -> None:
    """Each repeat is embedded anew, and was compared for all of them again."""
    await keep(store, *(write("the same", session=f"s{i}") for i in range(100)))
    sql(truth_dsn, "DELETE FROM memory_edge RETURNING 1")  # those by words
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    ((made,),) = sql(truth_dsn, "SELECT count(*) FROM memory_edge WHERE resolver = 'vectors'")
    assert 0 < made <= similar.MAX_EQUAL * similar.MAX_SIMILAR


async def test_a_write_looks_its_texts_up_by_their_hash_before_there_are_statistics(
    store: Store,
) -> None:
    from vector.connection.arrays import bytea_array, text_array
    from vector.memories.write import ALIVE

    await said(store, 1_000)
    ((repo, hashes),) = await store.db.rows(
        "SELECT repo_id, array_agg(content_hash) FROM (SELECT * FROM memories LIMIT 20) m"
        " GROUP BY repo_id", {},
    )  # fmt: skip
    keys = {"agents": text_array(["agent0"] * 20), "sessions": text_array(["s"] * 20)}
    made = await plan(store.db, ALIVE, {"repo": repo, "hashes": bytea_array(hashes), **keys})
    assert "memories_content_hash_idx" in made
    assert "memories_once" not in made


# -- searching --------------------------------------------------------------------------------------


async def test_the_arm_by_meaning_asks_the_index_without_reading_rows_first(
    store: Store, monkeypatch: pytest.MonkeyPatch, index_early: None
) -> None:
    await said(store, 1_000, agents=4)
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    arm = store.search._nearest._of_agents
    asked: list[str] = []
    rows = arm._app.rows

    async def noted(query: str, *given: Any, **named: Any) -> list[tuple[Any, ...]]:
        asked.append(query)
        return await rows(query, *given, **named)

    query = await Model().embed_query("7")
    view = await store.search.view(MEMORIES)
    every = await store.search.nearest(view, query, MEMORIES, 10)
    theirs = replace(MEMORIES, agent_id="agent1")
    exact = await store.search.nearest(view, query, theirs, 10)
    monkeypatch.setattr(nearest_agents, "EXACT_ROWS", 100)
    monkeypatch.setattr(nearest_agents, "FOUND_COST", 1)
    monkeypatch.setattr(arm, "_app", type("App", (), {"rows": staticmethod(noted)})())
    arm._known.clear()
    by_index = await store.search.nearest(view, query, MEMORIES, 10)
    assert len(asked) == 2, "how many the table has, then the index"
    assert len({c.id for c in by_index} & {c.id for c in every}) >= 9
    assert not any("MATERIALIZED" in statement for statement in asked)
    asked.clear()
    of_agent = await store.search.nearest(view, query, theirs, 10)
    assert len(asked) == 3, "how many the agent has is counted once"
    await store.search.nearest(view, query, theirs, 10)
    assert len(asked) == 4
    assert not any("MATERIALIZED" in statement for statement in asked)
    assert len({c.id for c in of_agent} & {c.id for c in exact}) >= 9


async def test_a_filter_that_keeps_few_of_many_compares_those(
    store: Store, monkeypatch: pytest.MonkeyPatch, index_early: None
) -> None:
    await said(store, 600)
    await keep(store, write("rare 9001", tags=("rare",)))
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    monkeypatch.setattr(nearest_agents, "EXACT_ROWS", 100)
    where: MemoryFilter = replace(HERE, tags_any=("rare",))
    asked = in_memories(where, MEMORIES.as_of)
    view = await store.search.view(asked)
    found = await store.search.nearest(view, await Model().embed_query("5"), asked, 10)
    assert len(found) == 1


@pytest.mark.parametrize(
    "tagged", [replace(HERE, tags_any=("rare", "none")), replace(HERE, tags_all=("rare", "b"))]
)
async def test_a_tag_that_few_have_is_looked_up_in_its_index(
    store: Store, monkeypatch: pytest.MonkeyPatch, tagged: MemoryFilter
) -> None:
    await said(store, 600)
    for i in range(0, 600, 60):
        rare = ("rare",) if i % 120 else ("rare", "b")
        await keep(store, write(f"common w{i}a {i}", tags=rare), write(f"common {i} again"))
    await keep(store, *(write(f"common {i} too") for i in range(1_000, 1_400)))
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    asked = in_memories(tagged, MEMORIES.as_of)
    view, query = await store.search.view(asked), await Model().embed_query("5")
    read: list[str] = []
    rows = Scoped.rows

    async def noted(self: Scoped, query: str, *given: Any, **named: Any) -> list[tuple[Any, ...]]:
        read.append(query)
        return await rows(self, query, *given, **named)

    before = await store.search.nearest(view, query, asked, 20)
    monkeypatch.setattr(nearest_agents, "EXACT_ROWS", 100)
    monkeypatch.setattr(Scoped, "rows", noted)
    assert await store.search.nearest(view, query, asked, 20) == before
    assert any("tagged_memories" in query for query in read)
    assert any("tagged" in query and "MATERIALIZED" in query for query in read)
    read.clear()
    by_words = await store.search.lexical(view, ["common"], asked, 20)
    assert {c.id for c in by_words} == {c.id for c in before}
    assert any("tagged_memories" in query for query in read)


async def test_memories_by_tag_come_from_the_index_whatever_the_tag(store: Store) -> None:
    await said(store, 1_000)
    await keep(store, write("rare 9001", tags=("rare",)))
    ((repo,),) = await store.db.rows("SELECT DISTINCT repo_id FROM memories", {})
    given = {"in": [repo], "any": ["rare"], "all": [], "most": 10}
    body = (
        "SELECT i.id FROM memories i WHERE i.tags && %(any)s::text[]"
        " AND (i.repo_id = ANY(%(in)s)) IS TRUE LIMIT 10"
    )
    made = await plan(store.db, body, given, "SET LOCAL enable_seqscan = off")
    assert "memories_tags" in made


async def test_more_memories_with_a_tag_than_are_looked_up_are_read_as_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(store, *(write(f"w{i} {i}", tags=("a",)) for i in range(20)))
    monkeypatch.setattr(tagged, "MOST", 19)
    where = in_memories(replace(HERE, tags_any=("a",)), MEMORIES.as_of)
    view = await store.search.view(where)
    cond = condition(view, where)
    assert await tagged.narrowed(store.app, view, where, cond) is cond
    monkeypatch.setattr(tagged, "MOST", 20)
    assert (await tagged.narrowed(store.app, view, where, cond)).params["tagged"]


async def test_what_the_index_missed_is_compared_where_it_is_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await said(store, 300)
    job = embedder(store)
    job.add(["r"])
    await job.run_until_idle()
    view, query = await store.search.view(MEMORIES), await Model().embed_query("7")
    found = await store.search.nearest(view, query, MEMORIES, 50)
    ids = [one.id for one in found]
    assert await store.search.missed(view, query, ids) == {}, "all were compared one by one"
    monkeypatch.setattr(nearest_agents, "EXACT_ROWS", 100)
    assert await store.search.missed(view, query, ids) == {one.id: one.score for one in found}


async def test_a_search_after_a_write_reads_the_new_segment_alone(store: Store) -> None:
    await said(store, 1_200)
    view = await store.search.view(MEMORIES)
    assert len(await store.search.lexical(view, ["w7a"], MEMORIES, 10)) == 1
    await keep(store, write("w7a once more"))
    await store.merger.finished()
    read: list[Any] = []
    lexical = store.search._lexical
    rows = lexical._app.rows

    async def noted(query: str, params: Any, **named: Any) -> list[tuple[Any, ...]]:
        if "s.lengths" in query:
            read.append(params["ids"])
        return await rows(query, params, **named)

    view = await store.search.view(MEMORIES)
    original, lexical._app = lexical._app, type("App", (), {"rows": staticmethod(noted)})()
    try:
        assert len(await store.search.lexical(view, ["w7a"], MEMORIES, 10)) == 2
    finally:
        lexical._app = original
    assert [len(ids) for ids in read] == [1]


# -- the text index ---------------------------------------------------------------------------------


async def test_segments_stay_few_whatever_the_sizes_of_writes(store: Store, truth_dsn: str) -> None:
    for i in range(60):
        writes = [write(f"zebra {i} {j}") for j in range(1 if i % 3 else 40)]
        await keep(store, *writes)
    await store.merger.finished()
    ((n, docs),) = sql(
        truth_dsn, "SELECT count(*), sum(docs) FROM segment WHERE replaced_at IS NULL"
    )
    assert n <= MAX_SEGMENTS
    assert docs == 20 * 40 + 40


async def test_what_is_written_during_a_merge_is_merged_after_it(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the next write used to notice."""
    count = "SELECT count(*) FROM segment WHERE replaced_at IS NULL"
    for i in range(100):
        await keep(store, write(f"zebra {i}"))
    await store.merger.finished()
    assert sql(truth_dsn, count)[0][0] <= MAX_SEGMENTS


async def test_a_merge_that_fails_leaves_what_was_and_is_tried_again(
    store: Store, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object) -> bool:
        raise PlaitError("no")

    monkeypatch.setattr(segments, "merge_small", fails)
    for i in range(30):
        await keep(store, write(f"zebra {i}"))
    await store.merger.finished()
    count = "SELECT count(*) FROM segment WHERE replaced_at IS NULL"
    assert sql(truth_dsn, count) == [(30,)]
    monkeypatch.undo()
    await keep(store, write("zebra 30"))
    await store.merger.finished()
    assert sql(truth_dsn, count)[0][0] <= MAX_SEGMENTS
    view = await store.search.view(MEMORIES)
    assert len(await store.search.lexical(view, ["zebra"], MEMORIES, 100)) == 31
