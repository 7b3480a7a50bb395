"""A repeated search is answered from memory, and never by what a write has made old."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from plait.client import AsyncPlaitClient, PlaitRpcError, Selector, new_memory
from plait.domain.options import SearchOptions
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from server.app import App
from server.grpc.server import Server
from tests.e2e.conftest import at_rest

QUERY = "exponential wait between attempts"


@pytest.fixture
async def repo(client: AsyncPlaitClient, tmp_path: Path) -> AsyncIterator[str]:
    """A repository of its own, indexed, with vectors."""
    name = f"kept-{uuid4().hex[:8]}"
    (tmp_path / "wait.py").write_text("def wait(attempt):\n    return 2 ** attempt\n")
    await indexed(client, tmp_path, name)
    yield name
    with suppress(PlaitRpcError):  # one test removes it itself
        await client.delete_repository(name)


async def indexed(client: AsyncPlaitClient, folder: Path, name: str) -> None:
    begun = await client.start_index(str(folder), repository=name)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", job.error_message


class Unasked:
    """In place of the pipeline: nothing may reach it."""

    async def search(self, query: Any) -> Any:
        raise AssertionError("the pipeline ran")


async def test_a_repeat_is_answered_without_the_pipeline(
    client: AsyncPlaitClient, app: App, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Filter(repos=(repo,))
    await at_rest(app)
    first = await client.search(QUERY, where=where)
    monkeypatch.setattr(app, "search", Unasked())
    again = await client.search(QUERY, where=where)
    assert again.hits == first.hits
    assert again.revisions == first.revisions
    assert again.took_ms > 0


async def test_kept_and_fresh_answers_are_equal_after_every_kind_of_write(
    client: AsyncPlaitClient, app: App, repo: str, tmp_path: Path
) -> None:
    where = Filter(repos=(repo,))
    everything = Filter(repos=(repo,), collections=tuple(Collection))

    async def equal() -> None:
        for asked, options in (
            (where, SearchOptions()),
            (everything, SearchOptions()),
            (where, SearchOptions(mode="full")),
        ):
            kept = await client.search(QUERY, where=asked, options=options)
            app.answers.clear()
            fresh = await client.search(QUERY, where=asked, options=options)
            assert (kept.hits, kept.revisions, kept.degraded) == (
                fresh.hits,
                fresh.revisions,
                fresh.degraded,
            )

    async def changed_file() -> None:
        (tmp_path / "more.py").write_text(f"def attempts():\n    return {uuid4().int}\n")
        await indexed(client, tmp_path, repo)

    async def removed_file() -> None:
        (tmp_path / "more.py").unlink()
        await indexed(client, tmp_path, repo)

    async def text_without_vectors() -> None:
        (tmp_path / "bare.py").write_text("def exponential_attempts():\n    return 1\n")
        begun = await client.start_index(str(tmp_path), repository=repo, embed=False)
        assert [state async for state in client.watch_index_job(begun.id)][-1].state == "succeeded"

    async def vectors() -> None:
        await indexed(client, tmp_path, repo)

    async def memory() -> None:
        await client.store(new_memory(f"{QUERY}, said {uuid4()}", repo=repo, agent_id="a"))

    async def superseded() -> None:
        old = await client.store(new_memory(f"{QUERY} in short", repo=repo, agent_id="a"))
        newer = new_memory(f"{QUERY} at length", repo=repo, agent_id="a")
        await client.store(newer, supersedes=old.entry.id)

    async def episode() -> None:
        note = Artifact(ArtifactKind.NOTE, f"{QUERY} failed")
        await client.append_episode(Episode("", repo, Outcome("failure"), (note,), agent_id="a"))

    async def feedback() -> None:
        recall = await client.recall(QUERY, where=everything)
        assert recall.recall_id is not None
        await client.report_feedback(recall.recall_id, helped=[i.item.id for i in recall.items[:1]])

    async def forgotten() -> None:
        entry = (await client.store(new_memory(f"{QUERY} secret", repo=repo, agent_id="a"))).entry
        await client.search(QUERY, where=where)
        await client.forget(repo, Selector(ids=(entry.id,)))
        assert not app.answers.is_open

    writes: tuple[Callable[[], Awaitable[None]], ...] = (
        changed_file,
        memory,
        episode,
        superseded,
        feedback,
        text_without_vectors,
        vectors,
        forgotten,
        removed_file,
    )
    for write in writes:
        await client.search(QUERY, where=where)  # kept, so that an old answer would be there
        await write()
        await at_rest(app)
        await equal()


async def test_a_repository_that_is_removed_is_found_no_more(
    client: AsyncPlaitClient, repo: str
) -> None:
    where = Filter(repos=(repo,))
    await client.search(QUERY, where=where)
    await client.delete_repository(repo)
    with pytest.raises(PlaitRpcError, match="has no published index"):
        await client.search(QUERY, where=where)


async def test_a_kept_answer_is_its_tenants_alone(server: Server, repo: str) -> None:
    where = Filter(repos=(repo,))
    async with AsyncPlaitClient(server.target) as ours:
        await ours.search(QUERY, where=where)
    async with AsyncPlaitClient(server.target, tenant="another") as theirs:
        with pytest.raises(PlaitRpcError, match="has no published index"):
            await theirs.search(QUERY, where=where)
