"""SearchStore's promises on every PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from plait.domain.errors import EmbeddingModelMismatch, InvalidInput, RepositoryNotIndexed
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Candidate,
    Collection,
    Episode,
    Filter,
    Outcome,
)
from plait.ports import View
from tests.waiting_texts import waiting_texts
from vector.search import nearest as nearest_module
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {
    "src/http/client.toy": ["send_request: open_socket", "open_socket:", "parseHeaders:"],
    "src/http/server/app.toy": ["serve_forever: send_request"],
    "src/util.toy": ["join_paths:", "open_file: open_socket open_socket open_socket"],
    "tests/test_client.toy": ["test_send: send_request"],
}
ALL = tuple(Collection)


async def symbols(store: Store, view: View, found: list[Candidate]) -> list[str]:
    items = await store.search.fetch(view, [c.id for c in found])
    return [items[c.id].symbol.rpartition(".")[2] for c in found]


async def test_bm25_ranks_and_orders(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter())
    found = await store.search.lexical(view, ["open_socket"], Filter(), 10)
    assert await symbols(store, view, found) == ["open_file", "open_socket", "send_request"]
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert await store.search.lexical(view, ["open_socket"], Filter(), 2) == found[:2]
    assert await store.search.lexical(view, ["nowhere"], Filter(), 10) == []
    assert await store.search.lexical(view, [], Filter(), 10) == []
    assert await store.search.lexical(view, ["\0"], Filter(), 10) == []


async def test_common_terms_count_only_alone(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter())
    alone = await store.search.lexical(view, ["toy"], Filter(), 10)
    assert len(alone) == 7
    both = await store.search.lexical(view, ["toy", "join_paths"], Filter(), 10)
    assert await symbols(store, view, both) == ["join_paths"]


async def test_scores_do_not_depend_on_segments_or_the_dead(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "one", CODE)
    grown: dict[str, list[str]] = {}
    for path, lines in CODE.items():
        grown[path] = ["temporary: open_socket"]
        await index(store, "many", grown)
        grown[path] = lines
        await index(store, "many", grown)
    scores = []
    for repo in ("one", "many"):
        where = Filter(repos=(repo,))
        found = await store.search.lexical(
            await store.search.view(where), ["open_socket", "send"], where, 10
        )
        scores.append([c.score for c in found])
    assert scores[0] == scores[1]


async def test_several_repositories_are_ranked_together(store: Store, index: IndexFiles) -> None:
    await index(store, "a", CODE)
    await index(store, "b", {"x.toy": ["open_socket:"]})
    view = await store.search.view(Filter())
    found = await store.search.lexical(view, ["open_socket"], Filter(), 10)
    items = await store.search.fetch(view, [c.id for c in found])
    assert {i.repo for i in items.values()} == {"a", "b"}
    only = Filter(repos=("b",))
    assert (
        len(await store.search.lexical(await store.search.view(only), ["open_socket"], only, 10))
        == 1
    )


async def test_views_name_what_is_not_indexed(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(Filter(repos=("r", "missing")))
    with pytest.raises(InvalidInput):
        await store.search.view(Filter(repos=("r\0",)))
    view = await store.search.view(Filter(repos=("r",)))
    assert (view.model, view.dim) == ("", 0)
    assert [r.repo for r in view.revisions] == ["r"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Filter(path_glob="src/http/*"), {"send_request", "open_socket"}),
        (Filter(path_glob="src/**"), {"send_request", "open_socket", "serve_forever", "open_file"}),
        (Filter(path_glob="**/server/*.toy"), {"serve_forever"}),
        (Filter(path_glob="src/util.toy"), {"open_file"}),
        (Filter(path_glob="src/uti?.toy"), {"open_file"}),
        (Filter(path_glob="src/u(ti|x)l.toy"), set()),
        (Filter(path_glob="src.util.toy"), set()),
        (Filter(languages=("toy",), kinds=("function",), path_glob="tests/*"), {"test_send"}),
        (Filter(languages=("python",)), set()),
        (Filter(tags_any=("x",)), set()),
        (Filter(agent_id="x"), set()),
        (Filter(session_key="x"), set()),
        (Filter(until=datetime(2020, 1, 1, tzinfo=UTC)), set()),
        (
            Filter(since=datetime(2020, 1, 1, tzinfo=UTC), path_glob="tests/**"),
            {"test_send"},
        ),
    ],
)
async def test_filters(store: Store, index: IndexFiles, where: Filter, expected: set[str]) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(where)
    for k in (10, 2):
        found = await store.search.lexical(view, ["socket", "request"], where, k)
        names = await symbols(store, view, found)
        assert len(names) == min(k, len(expected))
        assert set(names) <= expected


async def test_a_rare_match_far_down_is_still_found(store: Store, index: IndexFiles) -> None:
    files = {f"deep/f{i}.toy": [f"zebra{i}: zebra zebra"] for i in range(300)}
    await index(
        store, "r", {**files, "z/one.toy": ["lonely: zebra and a good deal of other words"]}
    )
    where = Filter(path_glob="z/*")
    view = await store.search.view(where)
    found = await store.search.lexical(view, ["zebra"], where, 3)
    assert await symbols(store, view, found) == ["lonely"]


@pytest.mark.parametrize("glob", ["*" * 100 + "x", "a" * 300 + "*?" * 15, "**/" * 30 + "x"])
async def test_hostile_globs_end(store: Store, index: IndexFiles, glob: str) -> None:
    await index(store, "r", CODE)
    where = Filter(path_glob=glob)
    view = await store.search.view(where)
    assert await store.search.lexical(view, ["socket"], where, 3) == []


@pytest.mark.parametrize("glob", ["**/" * 60, "a" * 500 + "*", "?a" * 50])
async def test_endless_globs_are_refused(store: Store, index: IndexFiles, glob: str) -> None:
    await index(store, "r", CODE)
    where = Filter(path_glob=glob)
    view = await store.search.view(where)
    with pytest.raises(InvalidInput) as caught:
        await store.search.lexical(view, ["socket"], where, 3)
    assert caught.value.field == "path_glob"


async def test_nul_in_a_filter_is_refused(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    where = Filter(kinds=("a\0b",))
    view = await store.search.view(where)
    with pytest.raises(InvalidInput):
        await store.search.lexical(view, ["socket"], where, 3)


async def test_phrases_want_their_words_in_a_row(store: Store, index: IndexFiles) -> None:
    code = {"a.toy": ["one: quick brown fox", "two: brown quick fox", "three: path.quick/brown"]}
    await index(store, "r", code)
    view = await store.search.view(Filter())
    found = await store.search.phrase(view, "quick brown", Filter(), 10)
    assert set(await symbols(store, view, found)) == {"one", "three"}
    assert await store.search.phrase(view, "brown one", Filter(), 10) == []
    assert await store.search.phrase(view, "quick missing", Filter(), 10) == []
    assert await store.search.phrase(view, "", Filter(), 10) == []
    assert await store.search.phrase(view, "a 'b \\ & | ! ( : *", Filter(), 10) == []


async def test_misspelt_identifiers_are_found(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    view = await store.search.view(Filter())
    for name in ("sned_request", "sendrequest", "client.send_reqest"):
        found = await store.search.identifiers(view, name, Filter(), 3)
        assert (await symbols(store, view, found))[0] == "send_request", name
    assert await store.search.identifiers(view, "zzzzqqqq", Filter(), 3) == []
    assert await store.search.identifiers(view, "", Filter(), 3) == []
    where = Filter(path_glob="tests/*")
    assert await symbols(store, view, await store.search.identifiers(view, "send", where, 3)) in (
        [],
        ["test_send"],
    )


async def test_fetch_leaves_out_what_is_gone_and_keeps_the_order(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    old = await store.search.view(Filter())
    found = [c.id for c in await store.search.lexical(old, ["toy"], Filter(), 10)]
    assert list(await store.search.fetch(old, found[::-1])) == found[::-1]
    await index(store, "r", {"src/util.toy": CODE["src/util.toy"]})
    new = await store.search.view(Filter())
    assert len(await store.search.fetch(new, found)) == 2
    assert await store.search.fetch(new, []) == {}


# -- vectors --------------------------------------------------------------------------------------


def unit(*values: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    vector = np.array(values, dtype=np.float32)
    return vector / np.linalg.norm(vector)


async def embed(store: Store, repo: str, dim: int = 4, seed: int = 1) -> None:
    await store.vectors.ensure_space("toy-model", dim)
    rng = np.random.default_rng(seed)
    while batch := await waiting_texts(store, repo, 1000):
        vectors = rng.standard_normal((len(batch), dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        await store.vectors.store_vectors([p.content_hash for p in batch], vectors)
    await store.vectors.finish(repo)


async def test_nearest_is_exact_over_few_rows(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    assert (
        await store.search.nearest(await store.search.view(Filter()), unit(1, 0, 0, 0), Filter(), 3)
        == []
    )
    await embed(store, "r")
    view = await store.search.view(Filter())
    assert (view.model, view.dim) == ("toy-model", 4)
    found = await store.search.nearest(view, unit(1, 0, 0, 0), Filter(), 100)
    assert len(found) == 7
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)
    assert all(-1.001 <= c.score <= 1.001 for c in found)
    assert await store.search.nearest(view, unit(1, 0, 0, 0), Filter(), 3) == found[:3]
    where = Filter(path_glob="tests/*")
    near = await store.search.nearest(view, unit(1, 0, 0, 0), where, 3)
    assert await symbols(store, view, near) == ["test_send"]


async def test_a_vector_of_another_dimension_is_refused(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await embed(store, "r")
    with pytest.raises(EmbeddingModelMismatch):
        await store.search.nearest(await store.search.view(Filter()), unit(1, 0, 0), Filter(), 3)


async def test_the_index_agrees_with_the_exact_scan(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"d{i % 7}/f{i}.toy": [f"n{i}_{j}:" for j in range(4)] for i in range(100)}
    await index(store, "r", files)
    monkeypatch.setattr("vector.index.queue.INDEX_FROM_ROWS", 100)
    await embed(store, "r", dim=8)
    view = await store.search.view(Filter())
    for where in (Filter(), Filter(path_glob="d3/**")):
        query = unit(1, 2, 3, 4, 5, 6, 7, 8)
        exact = await store.search.nearest(view, query, where, 10)
        monkeypatch.setattr(nearest_module, "EXACT_ROWS", 5)
        by_index = await store.search.nearest(view, query, where, 10)
        monkeypatch.undo()
        assert len(by_index) == len(exact)
        assert len({c.id for c in by_index} & {c.id for c in exact}) >= 9
        assert [c.score for c in by_index] == sorted((c.score for c in by_index), reverse=True)


async def test_where_code_stands_is_read_once_a_revision(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"d{i}/f{i}.toy": [f"n{i}_{j}:" for j in range(4)] for i in range(3)}
    await index(store, "r", files)
    where = Filter(repos=("r",))
    view = await store.search.view(where)
    ids = [c.id for c in await store.search.lexical(view, ["toy"], where, 12)]
    places = await store.search.places(view, ids)
    assert list(places) == ids
    with monkeypatch.context() as patched:
        patched.setattr(store.search._lexical, "_app", None)
        again = await store.search.view(where)
        assert await store.search.places(again, ids[::-1]) == places
    del files["d0/f0.toy"]
    await index(store, "r", files)
    later = await store.search.places(await store.search.view(where), ids)
    assert list(later) == [id_ for id_ in ids if places[id_].path != "d0/f0.toy"]
    assert await store.search.places(view, ids) == places


async def test_what_one_tenant_has_read_no_other_is_told(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    await index(store, "other", {"x.toy": ["x:"]})
    where = Filter(repos=("r",))
    view = await store.search.view(where)
    ids = [c.id for c in await store.search.lexical(view, ["open_socket"], where, 10)]
    assert await store.search.places(view, ids)
    assert await store.search.places(await store.search.view(Filter(repos=("other",))), ids) == {}
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(Filter(repos=("r",), tenant="another"))


async def test_a_view_of_code_is_kept_until_the_code_changes(
    store: Store, index: IndexFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    await index(store, "r", CODE)
    where = Filter(repos=("r",))
    first = await store.search.view(where)
    with monkeypatch.context() as patched:
        patched.setattr(store.search._views, "_app", None)
        again = await store.search.view(where)
    assert again.revisions == first.revisions
    assert again.valid is not None
    assert first.valid is not None
    assert again.valid >= first.valid
    await index(store, "r", {**CODE, "new.toy": ["new:"]})
    newer = await store.search.view(where)
    assert newer.revisions[0].number == first.revisions[0].number + 1
    await store.repositories.delete("r", "default")
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(where)


async def test_one_caller_keeps_to_one_connection(store: Store) -> None:
    async def backend(rest_s: float = 0.0) -> int:
        query = "SELECT pg_backend_pid() FROM pg_sleep(%(rest_s)s)"
        ((pid,),) = await store.app.rows(query, {"rest_s": rest_s}, tenant="local")
        return int(pid)

    # Until three are there at once, and none is on its way: a pool opens them beside those who wait.
    while len(set(await asyncio.gather(*(backend(0.05) for _ in range(3))))) < 3:
        pass
    pool = store.app._db._pool
    while pool.get_stats()["pool_available"] < pool.get_stats()["pool_size"]:
        await backend(0.01)
    kept = {await backend() for _ in range(6)}
    assert len(kept) == 1
    # What a pool closes, as it was not needed, is not the one that is: the first turn counts, the next closes.
    size = pool.get_stats()["pool_size"]
    for _ in range(3):
        await pool._shrink_pool()
        assert {await backend()} == kept
    assert pool.get_stats()["pool_size"] < size


# -- agents' items --------------------------------------------------------------------------------


async def test_items_of_episodes_are_found_beside_code(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    artifacts = [
        Artifact(ArtifactKind.PLAN, "reuse open_socket", meta={"n": 1, "deep": {"a": [None, "x"]}}),
        Artifact(ArtifactKind.REFLECTION, "open_socket leaks"),
    ]
    await store.episodes.append(
        Episode(
            "q", "r", Outcome("failure"), artifacts,
            agent_id="claude", session_key="s1", tags=("net", "bug"), body_hash=b"h",
        )
    )  # fmt: skip
    everything = Filter(collections=ALL)
    view = await store.search.view(everything)
    found = await store.search.lexical(view, ["open_socket"], everything, 10)
    items = await store.search.fetch(view, [c.id for c in found])
    assert {i.collection for i in items.values()} == {"files", "plans", "reflections"}
    (plan,) = [i for i in items.values() if i.collection == "plans"]
    assert plan.meta == {"n": 1, "deep": {"a": [None, "x"]}}
    assert plan.tags == ("net", "bug")
    assert plan.ts > datetime.now(UTC) - timedelta(minutes=5)
    for where, number in (
        (Filter(collections=ALL, tags_any=("bug", "x")), 2),
        (Filter(collections=ALL, tags_all=("bug", "net")), 2),
        (Filter(collections=ALL, tags_all=("bug", "x")), 0),
        (Filter(collections=(Collection.PLANS,)), 1),
        (Filter(collections=ALL, agent_id="claude", session_key="s1"), 2),
        (Filter(collections=ALL, since=datetime.now(UTC) + timedelta(days=1)), 0),
        (Filter(), 3),
    ):
        assert len(await store.search.lexical(view, ["open_socket"], where, 10)) == number, where


async def test_a_repository_of_memories_alone_can_be_searched(store: Store) -> None:
    note = Artifact(ArtifactKind.NOTE, "the disk is cold")
    await store.episodes.append(Episode("q", "mem", Outcome("success"), [note], body_hash=b"h"))
    where = Filter(repos=("mem",), collections=(Collection.MEMORIES,))
    assert len(await store.search.lexical(await store.search.view(where), ["disk"], where, 5)) == 1
    anywhere = Filter(collections=(Collection.MEMORIES,))
    assert (
        len(await store.search.lexical(await store.search.view(anywhere), ["disk"], anywhere, 5))
        == 1
    )
    with pytest.raises(RepositoryNotIndexed):
        await store.search.view(Filter(repos=("mem",)))


async def test_places_of_agents_items_have_what_ranking_needs(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    began = datetime(2026, 1, 2, tzinfo=UTC)
    receipt = await store.episodes.append(
        Episode(
            request_id="1",
            repo="r",
            outcome=Outcome("success"),
            artifacts=(Artifact(ArtifactKind.PLAN, "open the socket later", "src/util.toy"),),
            agent_id="ada",
            session_key="s",
            tags=("net", "slow"),
            started_at=began,
        )
    )
    where = Filter(collections=ALL)
    view = await store.search.view(where)
    code, *_ = await store.search.lexical(view, ["join_paths"], Filter(), 1)
    places = await store.search.places(view, [receipt.item_ids[0], code.id])
    plan, chunk = places.values()
    assert (plan.path, plan.type, plan.source, plan.agent_id) == (
        "src/util.toy", "episodic", "agent", "ada",
    )  # fmt: skip
    assert (plan.session_key, plan.tags, plan.ts) == ("s", ("net", "slow"), began)
    assert (plan.episode_id, plan.importance) == (receipt.episode_id, 0.5)
    assert (chunk.start_line, chunk.end_line, chunk.ts) == (1, 1, None)


async def test_counts_tell_in_how_many_documents_a_term_is(store: Store, index: IndexFiles) -> None:
    await index(store, "r", CODE)
    where = Filter(collections=ALL)
    view = await store.search.view(where)
    documents, holding = await store.search.counts(
        view, ["join_paths", "toy", "zebra", "\0"], where
    )
    assert (documents, holding) == (7, {"join_paths": 1, "toy": 7, "zebra": 0})
    memories = Filter(collections=(Collection.MEMORIES,))
    assert await store.search.counts(view, ["toy"], memories) == (0, {"toy": 0})
