"""IngestEpisodes over a real server: bulk, in order, with errors in their places, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
import pytest

from plait.client import AsyncPlaitClient, PlaitClient, PlaitRpcError
from plait.domain.answers.memories import AppendedEpisode
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Filter,
    Outcome,
)
from plait.v1 import knowledge_service_pb2 as pb
from server.app import App
from server.grpc.server import Server

MANY = 2000


@pytest.fixture
async def repo(client: AsyncPlaitClient) -> AsyncIterator[str]:
    """Deleted at the end: thousands of texts would be embedded beside the tests that follow."""
    name = f"streamed-{uuid4().hex[:12]}"
    yield name
    await client.delete_repository(name)


def an_episode(repo: str, text: str, request_id: str = "") -> Episode:
    notes = (
        Artifact(ArtifactKind.REFLECTION, f"reflection on {text}"),
        Artifact(ArtifactKind.TURN, f"turn of {text}", meta={"role": "user"}),
    )
    return Episode(request_id, repo, Outcome("success", text), notes, agent_id="bulk")


async def test_two_thousand_episodes_are_answered_in_order(
    client: AsyncPlaitClient, repo: str
) -> None:
    episodes = [an_episode(repo, f"run {i}", f"{repo}/{i}") for i in range(MANY)]
    answers = [answer async for answer in client.ingest(episodes)]
    assert len(answers) == MANY
    for i, answer in enumerate(answers):
        assert isinstance(answer, AppendedEpisode)
        assert answer.request_id == f"{repo}/{i}"
        assert not answer.repeated
        assert len(answer.item_ids) == 2
    assert len({a.episode_id for a in answers if isinstance(a, AppendedEpisode)}) == MANY
    where = Filter(repos=(repo,), collections=(Collection.REFLECTIONS,))
    hits = (await client.search("reflection on run 1234", where=where)).hits
    assert "reflection on run 1234" in {hit.item.content for hit in hits}
    again = [answer async for answer in client.ingest(episodes[:50])]
    assert all(isinstance(a, AppendedEpisode) and a.repeated for a in again)


async def test_what_is_refused_has_its_error_in_its_place(
    client: AsyncPlaitClient, repo: str
) -> None:
    id_ = uuid4().hex
    good = an_episode(repo, "good", id_)
    reused = replace(an_episode(repo, "another body"), request_id=id_)
    empty = replace(good, request_id="", artifacts=(Artifact(ArtifactKind.NOTE, ""),))
    last = an_episode(repo, "last")
    answers = [a async for a in client.ingest([good, reused, empty, last])]
    assert [type(a) for a in answers] == [
        AppendedEpisode,
        PlaitRpcError,
        PlaitRpcError,
        AppendedEpisode,
    ]
    assert isinstance(answers[1], PlaitRpcError)
    assert (answers[1].code, answers[1].reason) == (
        grpc.StatusCode.ALREADY_EXISTS,
        "REQUEST_ID_REUSED",
    )
    assert isinstance(answers[2], PlaitRpcError)
    assert answers[2].reason == "EPISODE_INVALID"
    assert list(answers[2].fields) == ["episode.artifacts[0].content"]


async def test_each_is_answered_before_the_sender_goes_on(
    client: AsyncPlaitClient, repo: str
) -> None:
    """A sender that waits for every answer is not kept for a full batch."""
    answered: asyncio.Queue[None] = asyncio.Queue()

    async def episodes() -> AsyncIterator[Episode]:
        for i in range(5):
            yield an_episode(repo, f"slow {i}")
            await asyncio.wait_for(answered.get(), 60)

    count = 0
    async for answer in client.ingest(episodes()):
        assert isinstance(answer, AppendedEpisode)
        count += 1
        answered.put_nowait(None)
    assert count == 5


async def test_a_stream_without_anything_ends_without_anything(client: AsyncPlaitClient) -> None:
    assert [answer async for answer in client.ingest([])] == []


async def test_a_malformed_message_ends_the_stream_after_what_came_before(
    channel: grpc.aio.Channel, repo: str
) -> None:
    request = pb.IngestEpisodesRequest()
    request.append.episode.repository = repo
    request.append.episode.outcome.status = 1  # type: ignore[assignment]

    async def requests() -> AsyncIterator[bytes]:
        yield request.SerializeToString()
        await asyncio.sleep(0.5)
        yield b"\xff\xff\xff"

    raw: Any = channel.stream_stream("/plait.v1.KnowledgeService/IngestEpisodes", None, None)
    call = raw(requests())
    answer = pb.IngestEpisodesResponse.FromString(await call.read())
    assert answer.WhichOneof("result") == "response"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_sync_client_streams_too(server: Server, repo: str) -> None:
    def stream() -> Iterator[AppendedEpisode | PlaitRpcError]:
        with PlaitClient(server.target) as sync:
            yield from sync.ingest(an_episode(repo, f"sync {i}") for i in range(20))

    answers = await asyncio.to_thread(lambda: list(stream()))
    assert len(answers) == 20
    assert all(isinstance(answer, AppendedEpisode) for answer in answers)


async def test_evidence_travels_and_is_kept(client: AsyncPlaitClient, app: App, repo: str) -> None:
    raw = Evidence("session.jsonl", "application/jsonl", b'{"a": 1}\n' * 1000)
    (answer,) = [
        a async for a in client.ingest([replace(an_episode(repo, "with"), evidence=(raw,))])
    ]
    assert isinstance(answer, AppendedEpisode)
    again = await client.append_episode(replace(an_episode(repo, "with"), evidence=(raw,)))
    assert again.repeated
    other = Evidence("session.jsonl", "application/jsonl", b"other")
    changed = await client.append_episode(replace(an_episode(repo, "with"), evidence=(other,)))
    assert not changed.repeated  # evidence is part of the body
