"""`CodeVersions.version`: another one after each write that a search of code could tell, on every PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from tests.waiting_texts import waiting_texts
from vector.store import Store

IndexFiles = Callable[..., Awaitable[Any]]

CODE = {"a.toy": ["alpha:", "beta: alpha"]}
MORE = {**CODE, "b.toy": ["gamma: beta"]}


async def fill(store: Store, repo: str) -> None:
    while batch := await waiting_texts(store, repo, 1):
        vectors = np.tile(np.array([1, 0, 0], np.float32), (len(batch), 1))
        await store.vectors.store_vectors([p.content_hash for p in batch], vectors)


async def test_a_version_lasts_until_its_code_changes(store: Store, index: IndexFiles) -> None:
    seen = [await store.search.version(["r"])]

    async def new() -> bool:
        """Whether the version is one that was not seen yet; a view has the same."""
        seen.append(await store.search.version(["r"]))
        return seen[-1] not in seen[:-1]

    await index(store, "r", CODE)
    assert await new()
    await index(store, "r", MORE)
    assert await new()
    await store.vectors.ensure_space("m", 3)
    await fill(store, "r")
    assert await new()
    await store.repositories.delete("r", "default")
    assert await new()
    await index(store, "r", CODE)
    assert await new()


async def test_vectors_of_a_text_change_the_version_of_each_repository_that_has_it(
    store: Store, index: IndexFiles
) -> None:
    for repo in ("one", "two"):
        await index(store, repo, CODE)
    await store.vectors.ensure_space("m", 3)
    before = [await store.search.version([repo]) for repo in ("one", "two")]
    await fill(store, "one")
    after = [await store.search.version([repo]) for repo in ("one", "two")]
    assert all(old != new for old, new in zip(before, after, strict=True))


async def test_what_agents_write_and_other_repositories_leave_a_version_as_it_is(
    store: Store, index: IndexFiles
) -> None:
    await index(store, "r", CODE)
    before = await store.search.version(["r"])
    await index(store, "other", CODE)
    await index(store, "other", MORE)
    note = Artifact(ArtifactKind.NOTE, "a note")
    await store.episodes.append(Episode("e1", "other", Outcome("success"), (note,)))
    assert await store.search.version(["r"]) == before


async def test_a_view_has_the_version_of_its_repositories(store: Store, index: IndexFiles) -> None:
    for repo in ("one", "two"):
        await index(store, repo, CODE)
    for repos in (("one",), ("two", "one")):
        where = Filter(repos=repos, collections=(Collection.FILES,))
        view = await store.search.view(where)
        assert view.version == await store.search.version(repos) != ""


async def test_a_repository_that_is_not_there_has_no_part_in_a_version(store: Store) -> None:
    assert await store.search.version(["nowhere"]) == ""
