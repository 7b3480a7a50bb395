"""Batches of a stream: what is read ahead is bounded, and nobody waits for a full one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import pytest

from plait.domain.errors import PlaitError, StoreUnavailable
from plait.domain.values import Episode, EpisodeReceipt, Outcome
from plait.v1 import knowledge_service_pb2 as pb
from server.grpc.services import ingest


class Sender:
    """A stream of equal requests that counts how many were taken from it."""

    def __init__(self, total: int, size: int = 10) -> None:
        self.taken = 0
        self._more = asyncio.Event()
        self._total = total
        self._size = size

    async def __aiter__(self) -> AsyncIterator[pb.IngestEpisodesRequest]:
        for _ in range(self._total):
            self.taken += 1
            self._more.set()
            request = pb.IngestEpisodesRequest()
            request.append.request_id = "x" * self._size
            yield request

    async def took(self, number: int) -> None:
        """Once so many were taken."""
        while self.taken < number:
            self._more.clear()
            await self._more.wait()


async def read(request: pb.AppendEpisodeRequest) -> Episode:
    return Episode(request.request_id, "app", Outcome("success"), ())


@pytest.mark.parametrize(
    ("total", "size", "most"),
    [
        (5000, 10, ingest.MAX_BATCH),  # by number
        (300, 2**20, ingest.MAX_BATCH_BYTES // 2**20),  # by bytes
    ],
)
async def test_while_a_batch_is_stored_one_request_more_is_read(
    total: int, size: int, most: int
) -> None:
    sender = Sender(total, size)
    batches: list[int] = []
    taken: list[int] = []

    async def store(episodes: Sequence[Episode]) -> Sequence[EpisodeReceipt | PlaitError]:
        batches.append(len(episodes))
        if sum(batches) < total:
            await sender.took(sum(batches) + 1)
        await asyncio.sleep(0)  # who reads on would by now
        taken.append(sender.taken)
        return [EpisodeReceipt(uuid4(), (), False) for _ in episodes]

    answers = [a async for a in ingest.answers("default", aiter(sender), read, store)]
    assert len(answers) == total == sum(batches)
    assert max(batches) <= most
    done = 0
    for batch, seen in zip(batches, taken, strict=True):
        done += batch
        assert seen == min(done + 1, total)


async def test_a_store_that_fails_ends_the_stream_after_what_was_answered() -> None:
    calls = 0

    async def store(episodes: Sequence[Episode]) -> Sequence[EpisodeReceipt | PlaitError]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreUnavailable("away")
        return [EpisodeReceipt(uuid4(), (), False) for _ in episodes]

    answers = ingest.answers("default", aiter(Sender(ingest.MAX_BATCH + 10)), read, store)
    for _ in range(ingest.MAX_BATCH):
        assert (await anext(answers)).WhichOneof("result") == "response"
    with pytest.raises(StoreUnavailable):
        await anext(answers)


async def test_a_fault_of_the_sender_is_met_after_the_answers_before_it() -> None:
    async def broken() -> AsyncIterator[pb.IngestEpisodesRequest]:
        yield pb.IngestEpisodesRequest(append=pb.AppendEpisodeRequest(request_id="a"))
        raise StoreUnavailable("the transport is gone")

    async def store(episodes: Sequence[Episode]) -> Sequence[EpisodeReceipt | PlaitError]:
        return [EpisodeReceipt(uuid4(), (), False) for _ in episodes]

    answers = ingest.answers("default", broken(), read, store)
    assert (await anext(answers)).response.request_id == "a"
    with pytest.raises(StoreUnavailable):
        await anext(answers)


async def test_a_request_without_an_episode_is_refused_alone() -> None:
    async def one() -> AsyncIterator[pb.IngestEpisodesRequest]:
        yield pb.IngestEpisodesRequest()

    async def store(episodes: Sequence[Episode]) -> Sequence[EpisodeReceipt | PlaitError]:
        raise AssertionError("nothing to store")

    answers = [a async for a in ingest.answers("default", one(), read, store)]
    assert [a.error.field for a in answers] == ["append"]
