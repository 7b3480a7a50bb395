"""MemoryService over a real server: what is stored is read back, now and as of other times."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import grpc
import pytest

from plait.client import AsyncPlaitClient, PlaitRpcError, new_memory
from plait.domain.answers.memories import StoredMemory, Tool
from plait.domain.memory import (
    MemoryEntry,
    MemoryFilter,
    MemoryId,
    MemoryMatch,
    MemorySource,
    MemoryType,
)
from plait.domain.values import Collection, Filter
from plait.v1 import memory_service_pb2 as pb
from plait.v1 import memory_service_pb2_grpc
from server.app import App
from server.grpc.server import Server
from tests.e2e.conftest import at_rest
from tests.processes import eventually


@pytest.fixture
def repo() -> str:
    """A repository of this test alone; nothing is indexed under it."""
    return f"memories-{uuid4().hex[:12]}"


def note(text: str, repo: str, **more: object) -> MemoryEntry:
    return new_memory(text, repo=repo, agent_id="fixer", **more)  # type: ignore[arg-type]


async def test_a_memory_comes_back_as_it_was_stored(client: AsyncPlaitClient, repo: str) -> None:
    sent = note(
        "Retries back off exponentially.",
        repo,
        type=MemoryType.PROCEDURAL,
        source=MemorySource.USER,
        session_key="s1",
        tags=("net", "http"),
        importance=0.75,
        custom={"pull": 12, "deep": {"a": [1, None, "x"]}},
        path="pkg/retries.py",
        symbol="pkg.retries.backoff",
        pinned=True,
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    stored = await client.store(sent)
    got = await client.get(stored.entry.id, repo)
    assert got == stored.entry
    assert (got.content, got.type, got.path, got.symbol, got.pinned) == (
        sent.content,
        sent.type,
        sent.path,
        sent.symbol,
        True,
    )
    assert got.metadata == sent.metadata
    assert (got.repo, got.agent_id, got.version, got.valid_from) == (
        repo,
        "fixer",
        1,
        sent.valid_from,
    )
    assert got.tokens > 0
    assert got.created_at is not None


async def test_the_same_request_is_done_once_and_another_body_refused(
    client: AsyncPlaitClient, repo: str
) -> None:
    id_ = uuid4().hex
    first = await client.store(note("one", repo), request_id=id_)
    again = await client.store(note("one", repo), request_id=id_)
    assert (first.repeated, again.repeated) == (False, True)
    assert again.entry.id == first.entry.id
    with pytest.raises(PlaitRpcError) as caught:
        await client.store(note("two", repo), request_id=id_)
    assert caught.value.reason == "REQUEST_ID_REUSED"


async def test_without_a_request_id_one_is_made_of_the_body(
    client: AsyncPlaitClient, repo: str
) -> None:
    first = await client.store(note("same body", repo))
    again = await client.store(note("same body", repo))
    assert first.request_id == again.request_id != ""
    assert again.entry.id == first.entry.id


async def test_an_exact_duplicate_stays_one_entry_with_tags_united(
    client: AsyncPlaitClient, repo: str
) -> None:
    first = await client.store(note("the same text", repo, tags=("a",)))
    second = await client.store(note("the same text", repo, tags=("b",)))
    assert second.duplicate
    assert second.entry.id == first.entry.id
    assert second.entry.metadata.tags == ("a", "b")
    assert len((await client.list(MemoryFilter(repos=(repo,)))).entries) == 1


async def test_a_batch_answers_each_in_its_place(client: AsyncPlaitClient, repo: str) -> None:
    entries = [note(f"memory {i}", repo) for i in range(300)]
    entries[7] = note("", repo)
    answers = await client.batch_store(entries)
    assert len(answers) == 300
    error = answers[7]
    assert isinstance(error, PlaitRpcError)
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MEMORY_INVALID")
    assert error.fields == {"requests[7].memory.content": error.message}
    for i, answer in enumerate(answers):
        if i != 7:
            assert isinstance(answer, StoredMemory)
            assert answer.entry.content == f"memory {i}"


async def test_pages_hold_every_memory_once_newest_first(
    client: AsyncPlaitClient, repo: str
) -> None:
    await client.batch_store([note(f"page {i}", repo) for i in range(25)])
    found: list[MemoryEntry] = []
    after = ""
    while True:
        page = await client.list(MemoryFilter(repos=(repo,)), limit=10, after=after)
        found += page.entries
        after = page.next
        if not after:
            break
    assert {e.content for e in found} == {f"page {i}" for i in range(25)}
    assert len(found) == 25
    times = [e.created_at for e in found if e.created_at]
    assert times == sorted(times, reverse=True)


async def test_filters_narrow(client: AsyncPlaitClient, repo: str) -> None:
    await client.store(note("a", repo, tags=("x", "y"), importance=0.9, session_key="s"))
    await client.store(note("b", repo, tags=("x",), type=MemoryType.EPISODIC))
    await client.store(note("c", repo, source=MemorySource.USER))

    async def found(**narrow: object) -> set[str]:
        where = MemoryFilter(repos=(repo,), **narrow)  # type: ignore[arg-type]
        return {e.content for e in (await client.list(where)).entries}

    assert await found() == {"a", "b", "c"}
    assert await found(tags_any=("x",)) == {"a", "b"}
    assert await found(tags_all=("x", "y")) == {"a"}
    assert await found(types=(MemoryType.EPISODIC,)) == {"b"}
    assert await found(sources=(MemorySource.USER,)) == {"c"}
    assert await found(importance_min=0.8) == {"a"}
    assert await found(session_key="s") == {"a"}
    assert await found(agent_id="nobody") == set()
    assert await found(created_after=datetime.now(UTC) + timedelta(days=1)) == set()


async def test_superseding_closes_and_history_stays(client: AsyncPlaitClient, repo: str) -> None:
    old = (await client.store(note("Port is 80.", repo))).entry
    await asyncio.sleep(0.02)
    new = (await client.store(note("Port is 443.", repo), supersedes=old.id)).entry
    listed = await client.list(MemoryFilter(repos=(repo,)))
    assert [e.id for e in listed.entries] == [new.id]
    before = await client.get(old.id, repo, recorded_as_of=old.updated_at)
    assert before.content == "Port is 80."
    then = await client.list(MemoryFilter(repos=(repo,)), recorded_as_of=old.updated_at)
    assert [e.id for e in then.entries] == [old.id]
    assert then.as_of.recorded == old.updated_at
    history = await client.list(MemoryFilter(repos=(repo,)), include_superseded=True)
    closed = {e.id: e for e in history.entries}[old.id]
    assert closed.superseded_by == new.id
    assert closed.superseded_at is not None


async def test_a_place_that_is_taken_is_refused_and_named(
    client: AsyncPlaitClient, repo: str
) -> None:
    old = (await client.store(note("Port is 80.", repo))).entry
    new = (await client.store(note("Port is 443.", repo), supersedes=old.id)).entry
    with pytest.raises(PlaitRpcError) as caught:
        await client.store(note("Port is 8443.", repo), supersedes=old.id)
    assert (caught.value.code, caught.value.reason) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "MEMORY_CLOSED",
    )
    assert caught.value.metadata["superseded_by"] == str(new.id)
    with pytest.raises(PlaitRpcError) as caught:
        await client.get(old.id, repo)
    assert caught.value.reason == "MEMORY_NOT_FOUND"
    assert caught.value.metadata["superseded_by"] == str(new.id)


async def test_deleting_closes_and_twice_is_no_error(client: AsyncPlaitClient, repo: str) -> None:
    entry = (await client.store(note("to go", repo))).entry
    await client.delete(entry.id, repo)
    await client.delete(entry.id, repo)
    assert (await client.list(MemoryFilter(repos=(repo,)))).entries == ()
    kept = await client.get(entry.id, repo, recorded_as_of=entry.updated_at)
    assert kept.content == "to go"


async def test_a_time_in_words_is_read_against_the_callers_clock(
    client: AsyncPlaitClient, repo: str
) -> None:
    past = datetime(2020, 1, 1, tzinfo=UTC)
    until = datetime(2021, 1, 1, tzinfo=UTC)
    await client.store(note("true in 2020", repo, valid_from=past, valid_to=until))
    await client.store(note("true from 2021 on", repo, valid_from=until))
    where = MemoryFilter(repos=(repo,))
    in_2020 = await client.list(where, valid_as_of="end of 2020")
    assert [e.content for e in in_2020.entries] == ["true in 2020"]
    assert in_2020.as_of.valid is not None
    in_2021 = await client.list(where, valid_as_of="2021-06")
    assert [e.content for e in in_2021.entries] == ["true from 2021 on"]
    with pytest.raises(PlaitRpcError) as caught:
        await client.list(where, valid_as_of="banana")
    assert caught.value.reason == "TIME_NOT_UNDERSTOOD"
    assert "last Tuesday" in caught.value.message


async def test_words_are_read_in_the_zone_that_the_request_names(
    channel: grpc.aio.Channel, repo: str
) -> None:
    stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
    request = pb.ListMemoriesRequest(filter=pb.MemoryFilter(repositories=[repo]))
    request.as_of.recorded.words = "yesterday"
    request.as_of.caller_time.FromDatetime(datetime(2026, 3, 18, 0, 30))
    request.as_of.time_zone = "America/Los_Angeles"
    response = await stub.ListMemories(request)
    # There it is still the evening of the 17th.
    assert response.as_of.recorded.ToDatetime() == datetime(2026, 3, 17, 6, 59, 59, 999999)


async def test_a_query_finds_by_words_and_soon_by_meaning(
    client: AsyncPlaitClient, repo: str
) -> None:
    await client.store(note("The scheduler drops jobs when the clock jumps.", repo))
    await client.store(note("Bananas are yellow.", repo))
    where = MemoryFilter(repos=(repo,))
    found = await client.query("scheduler clock", where)
    assert found.matches[0].entry.content.startswith("The scheduler")
    assert 0 < found.matches[0].score <= 1

    async def by_meaning() -> MemoryMatch | None:  # the vectors are made behind the writes
        answer = await client.query("which fruit has what colour", where, top_k=1)
        return answer.matches[0] if answer.matches and not answer.degraded else None

    match = await eventually(by_meaning)
    assert "Bananas" in match.entry.content


async def test_of_equal_texts_a_query_prefers_the_important_and_the_new(
    app: App, client: AsyncPlaitClient, repo: str
) -> None:
    """And a search of memories ranks as the query does: both run the same stages."""
    now = datetime.now(UTC)
    text = "The scheduler drops jobs."  # of three agents, so that none is the other's duplicate
    for name, importance, days in (("plain", 0.5, 900), ("new", 0.5, 1), ("important", 1.0, 800)):
        then = now - timedelta(days=days)
        given = new_memory(text, repo=repo, agent_id=name, importance=importance, valid_from=then)
        await client.store(given)
    await at_rest(app)  # a vector that arrives between the two would part them
    matches = (await client.query("scheduler drops jobs", MemoryFilter(repos=(repo,)))).matches
    found = [match.entry.agent_id for match in matches]
    assert found[-1] == "plain"
    assert set(found) == {"plain", "new", "important"}
    assert matches[0].score > matches[-1].score
    where = Filter(repos=(repo,), collections=(Collection.MEMORIES,))
    hits = (await client.search("scheduler drops jobs", where=where)).hits
    assert [hit.item.id for hit in hits] == [match.entry.id for match in matches]


@pytest.mark.parametrize("name", ["Acme", "a" * 65, "-a", "a b", "../a", "default@x"])
async def test_what_is_no_tenants_name_is_refused(server: Server, name: str, repo: str) -> None:
    async with AsyncPlaitClient(server.target, tenant=name) as made:
        with pytest.raises(PlaitRpcError) as caught:
            await made.list(MemoryFilter(repos=(repo,)))
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "plait-tenant" in caught.value.fields


async def test_a_mistyped_tenant_keeps_cypher_refused_only_until_it_is_deleted(
    server: Server, client: AsyncPlaitClient, repo: str
) -> None:
    async def cypher() -> str:
        try:
            await client.graph_query("MATCH (n) RETURN count(n)", all_repositories=True)
        except PlaitRpcError as exc:
            return exc.reason
        return ""

    async with AsyncPlaitClient(server.target, tenant="defautl") as typo:
        try:
            await typo.store(note("Port is 80.", repo))
            assert await cypher() == "CYPHER_REFUSED"
        finally:
            await typo.delete_repository(repo)

    async def free() -> bool:
        return await cypher() == ""

    await eventually(free)


async def test_an_unknown_memory_is_not_found(client: AsyncPlaitClient, repo: str) -> None:
    with pytest.raises(PlaitRpcError) as caught:
        await client.get(MemoryId(uuid4()), repo)
    assert (caught.value.code, caught.value.reason) == (
        grpc.StatusCode.NOT_FOUND,
        "MEMORY_NOT_FOUND",
    )


async def test_in_a_batch_only_what_supersedes_nothing_known_fails(
    channel: grpc.aio.Channel, repo: str
) -> None:
    stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
    lost = str(uuid4())

    def one(text: str, supersedes: str = "") -> pb.StoreMemoryRequest:
        memory = pb.Memory(content=text, repository=repo, agent_id="fixer")
        return pb.StoreMemoryRequest(memory=memory, supersedes=supersedes)

    request = pb.BatchStoreMemoriesRequest(requests=[one("a"), one("b", lost), one("c")])
    response = await stub.BatchStoreMemories(request)
    kinds = [result.WhichOneof("result") for result in response.results]
    assert kinds == ["response", "error", "response"]
    assert response.results[1].error.reason == "MEMORY_NOT_FOUND"


async def test_a_turn_is_learned_once(client: AsyncPlaitClient, repo: str) -> None:
    turn = {
        "repo": repo,
        "agent_id": "fixer",
        "user_message": "Remember that the staging database is read-only on Fridays.",
        "assistant_reasoning": "I will plan the migration for Thursday then.",
        "tool_outcomes": [
            Tool("pytest", "2 failed: test_migrate", failed=True, command="pytest -q")
        ],
    }
    first = await client.learn(**turn)  # type: ignore[arg-type]
    assert any("read-only on Fridays" in entry.content for entry in first.entries)
    again = await client.learn(**turn)  # type: ignore[arg-type]
    assert again.repeated
    assert [e.id for e in again.entries] == [e.id for e in first.entries]
    recalled = await client.learn(
        repo=repo, agent_id="fixer", user_message=first.entries[0].content, request_id=uuid4().hex
    )
    assert recalled.skipped_cause or {e.id for e in recalled.entries} <= {
        e.id for e in first.entries
    }


async def test_a_turn_that_says_nothing_is_skipped_with_a_cause(
    client: AsyncPlaitClient, repo: str
) -> None:
    learned = await client.learn(repo=repo, agent_id="fixer", user_message="ok thanks")
    assert learned.entries == ()
    assert learned.skipped_cause
