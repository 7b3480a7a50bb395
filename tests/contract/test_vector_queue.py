"""VectorQueue's promises on every PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest

from etl.embed import fill_vectors
from etl.report import NoProgress
from plait.domain.errors import EmbeddingModelMismatch, InvalidInput, RepositoryNotIndexed
from plait.domain.values import Artifact, ArtifactKind, Episode, Filter, ItemId, Outcome
from plait.ports import PendingText, Vectors
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.search import SearchService
from plait.retrieval.search_context import Deps
from plait.settings import SearchSettings
from server.background_jobs.code_order import CodeOrder
from tests.waiting_texts import waiting_texts
from vector.index import queue
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {"a.toy": ["alpha:", "beta: alpha"], "test_a.toy": ["test_alpha: alpha"]}


def ones(n: int, dim: int = 3) -> np.ndarray[Any, np.dtype[np.float32]]:
    out = np.zeros((n, dim), dtype=np.float32)
    out[:, 0] = 1.0
    return out


async def fill(store: Store, repo: str, limit: int = 100) -> list[str]:
    texts = []
    while batch := await waiting_texts(store, repo, limit):
        texts += [p.text for p in batch]
        await store.vectors.store_vectors([p.content_hash for p in batch], ones(len(batch)))
    return texts


async def test_pending_gives_each_text_once_code_before_tests(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    assert await store.vectors.coverage("r") == (0, 3)
    assert await fill(store, "r", limit=1) == [
        "a.toy a.alpha\nalpha:",
        "a.toy a.beta\nbeta: alpha",
        "test_a.toy test_a.test_alpha\ntest_alpha: alpha",
    ]
    assert await store.vectors.coverage("r") == (3, 3)
    assert (await store.repositories.revision("r")).embedded == 3
    await store.vectors.finish("r")
    assert await store.vectors.coverage("r") == (3, 3)


async def test_one_model_an_index(store: Store, index: IndexFiles) -> None:
    await store.vectors.ensure_space("first", 3)
    await store.vectors.ensure_space("second", 4)  # nothing is embedded yet: nothing can be mixed
    await store.vectors.ensure_space("first", 3)
    await index(store, "r", CODE)
    assert (await store.search.view(Filter())).model == ""
    await fill(store, "r")
    assert (await store.search.view(Filter())).model == "first"
    await store.vectors.ensure_space("first", 3)
    for model, dim in (("second", 3), ("first", 4)):
        with pytest.raises(EmbeddingModelMismatch) as caught:
            await store.vectors.ensure_space(model, dim)
        assert caught.value.metadata["index_model"] == "first"


async def test_vectors_of_a_wrong_shape_are_refused(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    with pytest.raises(InvalidInput):
        await store.vectors.store_vectors([b"h"], ones(1))  # no space recorded
    await store.vectors.ensure_space("m", 3)
    with pytest.raises(EmbeddingModelMismatch):
        await store.vectors.store_vectors([b"h"], ones(1, dim=4))
    with pytest.raises(InvalidInput):
        await store.vectors.store_vectors([b"h", b"i"], ones(1))
    await store.vectors.store_vectors([], ones(0))
    assert await store.vectors.coverage("r") == (0, 3)


async def test_equal_texts_share_a_vector_across_repositories(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "one", CODE)
    await index(store, "two", CODE)
    await store.vectors.ensure_space("m", 3)
    assert len(await fill(store, "one")) == 3
    assert await store.vectors.coverage("two") == (3, 3)


async def test_a_chunk_that_comes_back_takes_its_vector_over(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    await fill(store, "r")
    revision = await index(store, "r", {**CODE, "a.toy": ["alpha:", "gamma:"]})
    assert (revision.chunks, revision.embedded) == (3, 2)
    assert await fill(store, "r") == ["a.toy a.gamma\ngamma:"]
    assert await store.vectors.coverage("r") == (3, 3)


async def test_storing_twice_is_harmless(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    batch = await waiting_texts(store, "r", 10)
    hashes = [p.content_hash for p in batch]
    for _ in range(2):
        await store.vectors.store_vectors(hashes, ones(len(hashes)))
        assert await store.vectors.coverage("r") == (3, 3)


async def test_items_of_episodes_wait_too(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    await fill(store, "r")
    note = Artifact(ArtifactKind.NOTE, "a note", path="a.toy")
    await store.episodes.append(Episode("q", "r", Outcome("success"), [note], body_hash=b"h"))
    await store.episodes.append(Episode("q2", "alone", Outcome("success"), [note], body_hash=b"h"))
    assert await store.vectors.coverage("r") == (3, 4)
    assert await store.vectors.coverage("alone") == (0, 1)
    assert await fill(store, "r") == ["a.toy\na note"]
    assert await store.vectors.coverage("r") == (3, 3)
    assert await store.vectors.coverage("alone") == (0, 0)


async def test_what_is_not_indexed_has_no_coverage(store: Store) -> None:
    with pytest.raises(RepositoryNotIndexed):
        await store.vectors.coverage("missing")
    assert await waiting_texts(store, "missing", 5) == []


async def test_finish_builds_the_index_with_the_documented_numbers(
    store: Store, index: IndexFiles, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    await fill(store, "r")
    monkeypatch.setattr("vector.index.queue.INDEX_FROM_ROWS", 3)
    await store.vectors.finish("r")
    await store.vectors.finish("r")
    with psycopg.connect(truth_dsn) as conn:
        ((definition,),) = conn.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'files_embedding_3'"
        ).fetchall()
        conn.execute("DROP INDEX plait.files_embedding_3")
    assert "hnsw" in definition
    assert "halfvec_cosine_ops" in definition
    assert "m='16'" in definition
    assert "ef_construction='64'" in definition
    async with store.db.connection() as connection:
        cursor = await connection.execute("SHOW hnsw.ef_search")
        assert await cursor.fetchone() == ("188",), "1.25 times the 150 candidates"


async def test_an_index_is_built_where_workers_find_no_shared_memory(
    store: Store, index: IndexFiles, truth_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        ((kind,),) = conn.execute("SHOW dynamic_shared_memory_type").fetchall()
        if kind != "posix":
            pytest.skip("shared memory is in files here, as large as the disk")
        conn.execute("ALTER TABLE plait.files SET (parallel_workers = 2)")
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    await fill(store, "r")
    monkeypatch.setattr("vector.index.queue.INDEX_FROM_ROWS", 3)

    async def much(*_: object) -> int:
        return 2_000_000

    monkeypatch.setattr("vector.index.queue.build_mb", much)
    await store.vectors.finish("r")
    with psycopg.connect(truth_dsn, autocommit=True) as conn:
        conn.execute("ALTER TABLE plait.files RESET (parallel_workers)")
        conn.execute("DROP INDEX plait.files_embedding_3")


async def test_who_wants_vectors_is_known_until_they_are_there(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "big", {**CODE, "b.toy": ["gamma:"]})
    await index(store, "small", {"x.toy": ["delta:"]})
    await index(store, "not", {"y.toy": ["epsilon:"]})
    assert await store.vectors.wanting() == []
    await store.vectors.want("big", True)
    await store.vectors.want("small", True)
    assert await store.vectors.wanting() == ["small", "big"]
    await store.vectors.ensure_space("m", 3)
    await fill(store, "small")
    assert await store.vectors.wanting() == ["big"]
    await store.vectors.want("big", False)
    assert await store.vectors.wanting() == []
    with pytest.raises(RepositoryNotIndexed):
        await store.vectors.want("unknown", True)


async def test_one_process_fills_in_a_repository(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await index(store, "s", {"x.toy": ["delta:"]})
    async with store.vectors.filling("r") as mine:
        assert mine
        async with store.vectors.filling("r") as another:
            assert not another
        async with store.vectors.filling("s") as of_another:
            assert of_another
    async with store.vectors.filling("r") as again:
        assert again


# Ids are in the order of the lines of a file, but not of files of one millisecond.
MANY = {
    "lib.toy": ["zero:", "one:", "two: shared", "three: shared two", "shared:"],
    "test_lib.toy": ["test_one: one"],
}


def symbols(texts: Sequence[PendingText]) -> list[str]:
    return [one.text.partition("\n")[0].rpartition(".")[2] for one in texts]


async def order_of(store: Store, called: Sequence[tuple[str, str]] = (), limit: int = 10) -> Any:
    ids = await store.vectors.waiting("r", limit, called)
    return symbols(await store.vectors.texts("r", ids))


async def test_code_that_is_called_waits_least(store: Store, index: IndexFiles) -> None:
    await index(store, "r", MANY)
    rest = ["zero", "one", "two", "three", "shared", "test_one"]
    assert await order_of(store) == rest
    called = [("lib.toy", "lib.shared"), ("test_lib.toy", "test_lib.test_one")]
    assert await order_of(store, called) == ["shared", "test_one", *rest[:4]]
    assert await order_of(store, called * 2, limit=3) == ["shared", "test_one", "zero"]
    # Of another file, unknown, or with a byte that no text of the store has: nobody's.
    strange = [("test_lib.toy", "lib.shared"), ("lib.toy", "lib.none"), ("lib.toy", "lib.\0")]
    assert await order_of(store, strange) == rest
    assert await store.vectors.waiting("missing", 5) == []


async def test_texts_are_of_chunks_that_are_published_and_wait(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", MANY)
    await index(store, "s", {"x.toy": ["other:"]})
    await store.vectors.ensure_space("m", 3)
    ids = await store.vectors.waiting("r", 10)
    backwards = await store.vectors.texts("r", [*reversed(ids), ids[-1]])
    assert symbols(backwards) == ["test_one", "shared", "three", "two", "one", "zero"]
    assert await store.vectors.texts("r", []) == []
    assert await store.vectors.texts("missing", ids) == []
    assert await store.vectors.texts("r", await store.vectors.waiting("s", 10)) == []
    await store.vectors.store_vectors([backwards[0].content_hash], ones(1))
    assert symbols(await store.vectors.texts("r", ids[-2:])) == ["shared"]
    await index(store, "r", {**MANY, "lib.toy": ["one:"]})
    assert symbols(await store.vectors.texts("r", ids)) == []
    assert await order_of(store) == ["one"]


async def test_a_batch_reads_its_own_chunks_and_not_all_that_wait(
    store: Store, index: IndexFiles
) -> None:
    await index(
        store, "r", {f"f{n}.toy": [f"s{n}x{line}:" for line in range(40)] for n in range(50)}
    )
    async with store.db.connection() as conn:
        await conn.execute("ANALYZE plait.files")
        asked = {"repo": "r", "ids": await store.vectors.waiting("r", 64)}
        cursor = await conn.execute(f"EXPLAIN (ANALYZE, COSTS OFF) {queue.TEXTS}".encode(), asked)
        plan = "\n".join(row[0] for row in await cursor.fetchall())
    assert "Seq Scan on files" not in plan, plan
    assert "rows=2000" not in plan, plan


class Told:
    """An embedding model that writes down what it was given, and lets a test do something meanwhile."""

    model, dim = "m", 3

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += [text.partition("\n")[0].rpartition(".")[2] for text in texts]
        if self.meanwhile:
            await self.meanwhile()
        return ones(len(texts))

    async def embed_query(self, text: str) -> Any:
        return ones(1)[0]

    async def close(self) -> None: ...


async def test_what_a_search_came_upon_is_embedded_before_its_neighbours(
    store: Store, index: IndexFiles
) -> None:
    """Between what is called most and the rest; chunks of the same file that were not found come in their turn."""
    more = ["before:", "open_socket:", "after:", "close_file:"]
    await index(store, "r", {**MANY, "lib.toy": [*MANY["lib.toy"], *more]})
    order, model = CodeOrder(store.search, store.relations), Told()

    async def provider() -> Told:
        return model

    deps = Deps(store.search, provider, SearchSettings(), tiers="model", touch=order.touch)
    search = SearchService.over(deps)

    async def ask() -> None:
        if len(model.texts) == 3:
            answer = await search.search(SearchQuery("open_socket", where=Filter(repos=("r",))))
            assert "lib.open_socket" in [hit.item.symbol for hit in answer.hits]

    model.meanwhile = ask
    await fill_vectors(store.vectors, model, "r", NoProgress(), 1, order)
    called = ["shared", "one", "two"]  # by two, by one and by one
    rest = ["zero", "three", "before", "after", "close_file", "test_one"]
    assert model.texts == [*called, "open_socket", *rest]
    assert await store.vectors.coverage("r") == (10, 10)


async def test_searches_by_the_table_alone_want_no_vectors(store: Store, index: IndexFiles) -> None:
    await index(store, "r", MANY)
    for tiers, wanted in (("static", []), ("both", ["r"])):
        told: list[str] = []

        def touch(repo: str, ids: Sequence[ItemId], told: list[str] = told) -> None:
            told.append(repo)

        deps = Deps(store.search, opened, SearchSettings(), tiers=tiers, touch=touch)  # type: ignore[arg-type]
        await SearchService.over(deps).search(SearchQuery("shared", where=Filter(repos=("r",))))
        assert told == wanted


async def opened() -> Told:
    return Told()
