"""IngestEpisodes: episodes from a stream, stored up to 500 a transaction, answered in their order.

Memory is bounded: one batch is read ahead, by number and by bytes; then nothing more is read from the
transport until its answers are taken, so gRPC's flow control slows a fast sender down.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from plait.domain.errors import InvalidInput, PlaitError
from plait.domain.values import Episode, EpisodeReceipt
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import episodes
from server.grpc.messages import convert

MAX_BATCH = 500
# Of requests as they came: a batch holds at most this and one message more.
MAX_BATCH_BYTES = 16 * 2**20
# A sender that waits for answers before it goes on is not kept waiting for a full batch.
GATHER_S = 0.005

_Request = pb.IngestEpisodesRequest | None
Parse = Callable[[pb.AppendEpisodeRequest], Awaitable[Episode]]
Store = Callable[[Sequence[Episode]], Awaitable[Sequence[EpisodeReceipt | PlaitError]]]


async def answers(
    tenant: str, requests: AsyncIterator[pb.IngestEpisodesRequest], parse: Parse, store: Store
) -> AsyncIterator[pb.IngestEpisodesResponse]:
    """One answer a request. Raises what `store` raises, after the answers to the batches before."""
    async for batch in batches(requests):
        parsed = [await _parsed(request, parse) for request in batch]
        good = [one for one in parsed if isinstance(one, Episode)]
        receipts = iter(await store(good) if good else ())
        for one in parsed:
            outcome = next(receipts) if isinstance(one, Episode) else one
            if isinstance(outcome, PlaitError):
                yield pb.IngestEpisodesResponse(error=convert.item_error(tenant, outcome))
            else:
                assert isinstance(one, Episode)
                yield pb.IngestEpisodesResponse(
                    response=episodes.appended(convert.receipt(outcome, one))
                )


async def _parsed(request: pb.IngestEpisodesRequest, parse: Parse) -> Episode | PlaitError:
    if not request.HasField("append"):
        return InvalidInput("append is missing; it is required", field="append")
    try:
        return await parse(request.append)
    except InvalidInput as exc:
        return exc


async def batches(
    requests: AsyncIterator[pb.IngestEpisodesRequest],
) -> AsyncIterator[list[pb.IngestEpisodesRequest]]:
    """What has come in by the time the last batch is done, at least one request a batch."""
    source = aiter(requests)
    coming = _next(source)
    try:
        while (first := await coming) is not None:
            batch, size = [first], first.ByteSize()
            coming = _next(source)
            while len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
                await asyncio.wait({coming}, timeout=GATHER_S)
                if not coming.done() or coming.exception() or (more := coming.result()) is None:
                    break  # nothing more for now; the end, or a fault, is met by the next round
                batch.append(more)
                size += more.ByteSize()
                coming = _next(source)
            yield batch
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _next(source: AsyncIterator[pb.IngestEpisodesRequest]) -> asyncio.Task[_Request]:
    """The next request; None at the end, since a task can't raise StopAsyncIteration."""

    async def one() -> _Request:
        return await anext(source, None)

    return asyncio.ensure_future(one())
