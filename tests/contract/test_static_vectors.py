"""The static table's vectors of code: there with the revision, merged with its segments, gone with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import numpy as np
import psycopg
import pytest

from etl.truth import open as open_truth
from plait.domain.scope import qualify
from plait.domain.values import Candidate, Filter
from plait.models.embedding import static
from plait.ports import View
from plait.settings import Settings
from plait.text.tokenize import query_terms
from tests.waiting_texts import waiting_texts
from vector.search import alike
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {
    "src/net.toy": ["open_socket: connect_address", "send_request: open_socket"],
    "src/files.toy": ["read_file: open_path", "delete_folder: remove_tree"],
    "tests/test_net.toy": ["test_send: send_request"],
}
QUESTION = Counter(query_terms("read the content of a document"))


async def names(store: Store, view: View, found: list[Candidate] | None) -> list[str]:
    assert found is not None
    items = await store.search.fetch(view, [c.id for c in found])
    return [items[c.id].symbol.rpartition(".")[2] for c in found]


async def ask(store: Store, where: Filter = Filter(), k: int = 10) -> list[str]:  # noqa: B008
    view = await store.search.view(where)
    return await names(store, view, await store.search.alike(view, QUESTION, where, k))


def rows(dsn: str, query: str = "SELECT count(*) FROM segment_vector") -> Any:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=plait") as conn:
        cursor = conn.execute(query.encode())
        found = cursor.fetchone() if cursor.description else None
        return found[0] if found else None


async def test_code_is_found_by_the_table_as_soon_as_it_is_published(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter())
    found = await store.search.alike(view, QUESTION, Filter(), 10)
    assert found is not None
    assert (await names(store, view, found))[0] == "read_file"
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert all(0.0 < c.score <= 1.001 for c in found)
    assert await store.search.alike(view, QUESTION, Filter(), 1) == found[:1]
    assert await store.search.alike(view, {"zzqx": 1}, Filter(), 10) == []
    assert await store.search.alike(view, {}, Filter(), 10) == []


async def test_filters_hold_for_the_table_too(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    assert (await ask(store, Filter(path_glob="src/files*"), 1)) == ["read_file"]
    assert not {"read_file", "delete_folder"} & set(await ask(store, Filter(path_glob="src/net*")))


async def test_what_a_revision_lost_is_not_found_and_an_answer_under_way_keeps_its_own(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    before = await store.search.view(Filter())
    await index(store, "r", {p: ls for p, ls in CODE.items() if p != "src/files.toy"})
    assert "read_file" not in await ask(store)
    found = await store.search.alike(before, QUESTION, Filter(), 1)
    assert await names(store, before, found) == ["read_file"]


async def test_merged_segments_keep_their_vectors(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    for n in range(12):
        await index(store, "r", {**CODE, **{f"src/m{i}.toy": [f"step_{i}:"] for i in range(n)}})
    lacking = rows(
        truth_dsn,
        "SELECT count(*) FROM segment s WHERE rev_to IS NULL AND NOT EXISTS"
        " (SELECT FROM segment_vector v WHERE v.segment_id = s.id)",
    )
    assert lacking == 0
    assert rows(truth_dsn, "SELECT count(*) FROM segment") < 12
    assert (await ask(store))[0] == "read_file"


async def test_segments_of_an_older_home_get_theirs_with_the_next_revision(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    rows(truth_dsn, "DELETE FROM segment_vector")
    store.search._alike._held.clear()
    assert await ask(store) == []
    await index(store, "r", {**CODE, "src/more.toy": ["more:"]})
    assert (await ask(store))[0] == "read_file"


async def test_vectors_of_another_table_are_not_read_and_made_anew(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    rows(truth_dsn, "UPDATE segment_vector SET model = 'static:another'")
    store.search._alike._held.clear()
    assert await ask(store) == []
    await index(store, "r", {**CODE, "src/more.toy": ["more:"]})
    assert (await ask(store))[0] == "read_file"
    assert rows(truth_dsn, "SELECT count(DISTINCT model) FROM segment_vector") == 1


async def test_a_removed_repository_leaves_no_vectors(
    store: Store, index: IndexFiles, truth_dsn: str
) -> None:
    await index(store, "r", CODE)
    assert rows(truth_dsn) == 1
    await store.repositories.delete("r")
    assert rows(truth_dsn) == 0


async def test_without_the_table_nothing_is_written(
    store: Store, index: IndexFiles, truth_dsn: str, truth_settings: Settings
) -> None:
    embedding = msgspec.structs.replace(truth_settings.embedding, tiers="model")
    plain = await open_truth(msgspec.structs.replace(truth_settings, embedding=embedding))
    try:
        await index(plain, "r", CODE)
        await index(plain, "r", {**CODE, "src/more.toy": ["more:"]})
    finally:
        await plain.close()
    assert rows(truth_dsn) == 0
    assert await ask(store) == []


async def test_another_tenants_vectors_are_not_read(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    name = qualify("acme", "r")
    draft = await store.index.begin(name, "/elsewhere", tenant="acme")
    await store.index.discard(draft)
    assert await ask(store, Filter(tenant="acme")) == []


async def test_cosines_are_of_chunks_with_the_models_vector(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    await store.vectors.ensure_space("m", 3)
    waiting = await waiting_texts(store, "r", 100)
    vectors = np.tile(np.array([0.6, 0.8, 0.0], np.float32), (2, 1))
    await store.vectors.store_vectors([p.content_hash for p in waiting[:2]], vectors)
    view = await store.search.view(Filter())
    ids = [c.id for c in await store.search.alike(view, QUESTION, Filter(), 10) or ()]
    every = await store.search.lexical(view, ["toy"], Filter(), 10)
    ids = list({*ids, *(c.id for c in every)})
    found = await store.search.cosines(view, np.array([1, 0, 0], np.float32), ids)
    assert len(found) == 2
    assert list(found.values()) == pytest.approx([0.6, 0.6], abs=1e-3)


async def test_a_view_of_more_chunks_than_memory_holds_is_left_to_the_other_arms(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    lexical = store.search._lexical
    small = alike.Alike(store.app, lexical, docs=3)
    view = await store.search.view(Filter())
    assert await small.alike(view, QUESTION, Filter(), 10) is None
    assert len(static.shipped()) > 0


async def test_queries_that_read_the_same_segments_at_once_count_them_once(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter(repos=("r",)))
    arm = alike.Alike(store.app, store.search._lexical)
    found = await asyncio.gather(
        *(arm.alike(view, QUESTION, Filter(repos=("r",)), 5) for _ in range(8))
    )
    assert all(one == found[0] for one in found)
    assert arm._count == sum(len(segment.scales) for segment in arm._held.values())
