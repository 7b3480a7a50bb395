"""AdminService over a real server: verify, rebuild, compact, undo, forget, dead letters."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import grpc
import pytest

from plait.client import AsyncPlaitClient, MemoryFilter, PlaitRpcError, Selector, new_memory
from plait.domain.answers.upkeep import DeadLetters
from plait.domain.memory import MemoryEntry
from plait.domain.retention import Budget
from plait.domain.values import Artifact, ArtifactKind, Collection, Episode, Filter, Outcome
from server.app import App
from tests.e2e.conftest import at_rest
from tests.processes import eventually


@pytest.fixture
def repo() -> str:
    return f"upkeep-{uuid4().hex[:12]}"


async def refused(call: Any) -> PlaitRpcError:
    with pytest.raises(PlaitRpcError) as caught:
        await call
    return caught.value


def memory(text: str, repo: str, **more: Any) -> MemoryEntry:
    return new_memory(text, repo=repo, agent_id="fixer", **more)


async def test_the_graph_agrees_after_every_kind_of_write(
    client: AsyncPlaitClient, indexed: str, repo: str
) -> None:
    diff = (
        "--- a/pkg/retries.py\n+++ b/pkg/retries.py\n@@ -4,3 +4,3 @@\n def backoff(attempt):\n"
        "-    return 1\n+    return 2\n"
    )
    artifacts = (Artifact(ArtifactKind.DIFF, diff), Artifact(ArtifactKind.NOTE, "fixes #12"))
    await client.append_episode(
        Episode(f"verify-{repo}", indexed, Outcome("success", "fixes #12"), artifacts)
    )
    first = await client.store(memory("one", repo))
    await client.store(memory("two", repo), supersedes=first.entry.id)
    for one in await client.verify([indexed, repo]):
        assert one.consistent, one
        assert one.checked
        assert (one.waiting, one.dead_letters, one.differences) == (0, 0, ())
    (code,) = await client.verify([indexed])
    assert code.nodes > 5


async def test_verify_says_what_is_missing_and_rebuild_mends_it(
    client: AsyncPlaitClient, app: App, indexed: str
) -> None:
    await at_rest(app)
    store: Any = await app.graph()
    damage = "MATCH (n:Function {repo: $repo}) DETACH DELETE n"
    await store._bolt.write((damage, {"repo": indexed}))
    (broken,) = await client.verify([indexed])
    assert not broken.consistent
    (missing,) = [d for d in broken.differences if d.kind == "missing"]
    assert missing.total >= 2
    assert any("backoff" in example for example in missing.examples)
    assert await client.rebuild([indexed]) >= 0
    (mended,) = await client.verify([indexed])
    assert mended.consistent, mended


async def test_a_name_nobody_knows_is_not_found(client: AsyncPlaitClient) -> None:
    for call in (client.verify(["nowhere"]), client.rebuild(["nowhere"])):
        assert (await refused(call)).reason == "REPOSITORY_NOT_INDEXED"


async def test_a_compaction_says_why_first_and_can_be_undone(
    client: AsyncPlaitClient, repo: str
) -> None:
    # The same words in other sessions: duplicates that storing leaves apart.
    for i in range(6):
        await client.store(memory("The cache is cold after a deploy.", repo, session_key=f"s{i}"))
    would = await client.compact(repo, "fixer", dry_run=True)
    assert would.dry_run
    assert would.id == ""
    assert would.closed >= 5
    assert all(step.reason for step in would.steps)
    assert len((await client.list(MemoryFilter(repos=(repo,)))).entries) == 6
    done = await client.compact(repo, "fixer", request_id=f"compact-{repo}")
    assert (done.dry_run, done.closed) == (False, would.closed)
    assert done.undo_until is not None
    left = (await client.list(MemoryFilter(repos=(repo,)))).entries
    assert len(left) < 6
    again = await client.compact(repo, "fixer", request_id=f"compact-{repo}")
    assert again.id == done.id
    assert await client.undo_compaction(done.id) == done.closed
    assert len((await client.list(MemoryFilter(repos=(repo,)))).entries) == 6
    assert (await refused(client.undo_compaction(done.id))).reason == "UNDO_EXPIRED"
    assert (await refused(client.undo_compaction(str(uuid4())))).reason == "COMPACTION_UNKNOWN"


async def test_a_compaction_with_nothing_to_do_is_none(client: AsyncPlaitClient, repo: str) -> None:
    await client.store(memory("only one", repo))
    done = await client.compact(repo, "fixer")
    assert (done.id, done.closed, done.undo_until) == ("", 0, None)


async def test_forgetting_leaves_nothing_in_either_store(
    client: AsyncPlaitClient, repo: str
) -> None:
    word = f"krypton{uuid4().hex}"
    entry = (await client.store(memory(f"the password is {word}", repo))).entry
    newer = (await client.store(memory(f"now it is {word}x", repo), supersedes=entry.id)).entry
    kept = (await client.store(memory("an innocent one", repo))).entry
    note = Artifact(ArtifactKind.REFLECTION, f"I saw {word}")
    episode = await client.append_episode(
        Episode("", repo, Outcome("success", word), (note,), agent_id="fixer")
    )
    ids = (entry.id, newer.id, UUID(episode.episode_id))
    would = await client.forget(repo, Selector(ids=ids), dry_run=True)
    assert (would.dry_run, would.memories, would.episodes) == (True, 2, 1)
    assert (await client.get(newer.id, repo)).content.endswith("x")
    done = await client.forget(repo, Selector(ids=ids))
    assert (done.memories, done.episodes) == (2, 1)
    assert set(done.memory_ids) == {entry.id, newer.id}
    assert sum(done.removed.values()) > 0
    assert sum(done.left.values()) == 0
    assert done.graph_done
    everywhere = Filter(repos=(repo,), collections=tuple(Collection))
    found = await client.search(word, where=everywhere, k=50)
    assert all(word not in hit.item.content for hit in found.hits)
    for id_ in (entry.id, newer.id):
        for words in (None, "now"):
            error = await refused(client.get(id_, repo, recorded_as_of=words))
            assert error.reason == "MEMORY_NOT_FOUND"
    listed = await client.list(MemoryFilter(repos=(repo,)), include_superseded=True)
    assert {e.id for e in listed.entries} == {kept.id}
    (compared,) = await client.verify([repo])
    assert compared.consistent, compared


async def test_dead_letters_are_told_and_queued_again(
    client: AsyncPlaitClient, app: App, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plait.domain.errors import InvalidInput

    store: Any = await app.graph()
    real = store.apply

    async def broken(delta: Any) -> None:
        if delta.repo == repo:
            raise InvalidInput("this delta can't be written; a test says so")
        await real(delta)

    with monkeypatch.context() as patch:
        patch.setattr(store, "apply", broken)
        await client.store(memory("unlucky", repo))

        async def dead() -> DeadLetters | None:
            found = await client.dead_letters([repo])
            return found if found.total else None

        letters = await eventually(dead)
    assert letters.total == 1
    (letter,) = letters.letters
    assert letter.repository == repo
    assert "a test says so" in letter.cause
    (compared,) = await client.verify([repo])
    assert not compared.consistent
    assert compared.dead_letters == 1
    assert await client.retry_dead_letters([repo]) == 1
    (mended,) = await client.verify([repo])
    assert mended.consistent, mended
    assert (await client.dead_letters([repo])).total == 0


async def test_stats_count_memories(client: AsyncPlaitClient, repo: str) -> None:
    stored = await client.store(memory("count my tokens please", repo))
    stats = await client.stats()
    usage = stats.memory_usage[(repo, "fixer", Budget.STORED)]
    assert (usage.tokens, usage.memories, usage.closed) == (stored.entry.tokens, 1, 0)
    assert usage.budget_tokens == 2_000_000
    assert stats.dead_letters == 0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda c: c.verify(), "repositories"),
        (lambda c: c.rebuild(), "repositories"),
        (lambda c: c.dead_letters(), "repositories"),
        (lambda c: c.retry_dead_letters(), "repositories"),
        (lambda c: c.verify(["a"], all_repositories=True), "repositories"),
        (lambda c: c.compact("", "a"), "repository"),
        (lambda c: c.compact("app", ""), "agent_id"),
        (lambda c: c.compact("app", "a", undo_s=-1.0), "undo_window"),
        (lambda c: c.compact("app", "a", undo_s=400 * 86_400.0), "undo_window"),
        (lambda c: c.compact("app", "a", request_id="a b"), "request_id"),
        (lambda c: c.undo_compaction("no-uuid"), "compaction_id"),
        (lambda c: c.forget("", Selector(agent_id="a")), "repository"),
        (lambda c: c.forget("app", Selector()), "selector"),
        (lambda c: c.forget("app", Selector(agent_id="x" * 300)), "selector.agent_id"),
    ],
)
async def test_bad_requests_name_their_field(
    client: AsyncPlaitClient, call: Any, field: str
) -> None:
    error = await refused(call(client))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert list(error.fields) == [field]
