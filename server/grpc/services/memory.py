"""MemoryService: parse the request, ask the stores, convert the answer."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

from plait.domain.answers.memories import Learned, Memories, MemoryAnswer, StoredMemory
from plait.domain.errors import (
    InvalidInput,
    PlaitError,
)
from plait.domain.memory import (
    MemoryQueryOptions,
    MemoryReceipt,
    MemoryWrite,
    TurnReceipt,
)
from plait.domain.scope import Scope, unqualify
from plait.memory.learn import learn
from plait.v1 import memory_service_pb2 as pb
from plait.v1 import memory_service_pb2_grpc
from plait.wire import memories, memory_answers, read_times
from server.app import App
from server.grpc import visible
from server.grpc.limits import Limits
from server.grpc.messages import convert, parse, parse_memory, scope, times
from server.grpc.services import savings

_SERVICE = "/plait.v1.MemoryService/"

Outcome = MemoryReceipt | PlaitError


class _Masked(NamedTuple):
    """A write, and how many credentials were covered in it."""

    write: MemoryWrite
    covered: int


class MemoryService(memory_service_pb2_grpc.MemoryServiceServicer):
    def __init__(self, app: App, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        # A tenth stays for what frames a message.
        self._room = app.settings.server.max_message_bytes * 9 // 10

    def _tenant(self, context: Any) -> str:
        return scope.tenant_of(context, self._app.settings.scope)

    # -- writes -------------------------------------------------------------------------------------

    async def StoreMemory(
        self, request: pb.StoreMemoryRequest, context: Any
    ) -> pb.StoreMemoryResponse:
        tenant = self._tenant(context)
        write, masked = await self._app.masking.write(parse_memory.write(tenant, request))
        (outcome,) = await self._app.commit(self._store(tenant, [write]))
        if isinstance(outcome, PlaitError):
            raise outcome
        return _stored(tenant, _Masked(write, masked), outcome)

    async def BatchStoreMemories(
        self, request: pb.BatchStoreMemoriesRequest, context: Any
    ) -> pb.BatchStoreMemoriesResponse:
        tenant = self._tenant(context)
        parsed = [
            one if isinstance(one, PlaitError) else _Masked(*await self._app.masking.write(one))
            for one in self._batch(tenant, request)
        ]
        writes = [one.write for one in parsed if isinstance(one, _Masked)]
        outcomes = iter(await self._app.commit(self._store(tenant, writes)))
        return pb.BatchStoreMemoriesResponse(
            results=[
                _result(tenant, one, next(outcomes) if isinstance(one, _Masked) else one)
                for one in parsed
            ]
        )

    def _batch(
        self, tenant: str, request: pb.BatchStoreMemoriesRequest
    ) -> list[MemoryWrite | PlaitError]:
        """Each request's write, or what is wrong with it. Raises: InvalidInput, for the batch."""
        count = len(request.requests)
        if not 1 <= count <= parse_memory.MAX_BATCH:
            raise parse.bad("requests", f"has {count} entries; send 1 to {parse_memory.MAX_BATCH}")
        most = int(self._app.settings.server.max_message_bytes * parse_memory.MAX_BATCH_SHARE)
        if request.ByteSize() > most:
            raise parse.bad(
                "requests", f"are more than {most:,} bytes together; send fewer at once"
            )
        out: list[MemoryWrite | PlaitError] = []
        for i, one in enumerate(request.requests):
            try:
                out.append(parse_memory.write(tenant, one, f"requests[{i}]."))
            except InvalidInput as exc:
                out.append(exc)
        return out

    async def _store(self, tenant: str, writes: list[MemoryWrite]) -> list[Outcome]:
        outcomes = await self._app.truth.memories.store(tenant, writes) if writes else []
        stored = [w for w, o in zip(writes, outcomes, strict=True) if isinstance(o, MemoryReceipt)]
        if stored:
            self._app.written({w.entry.repo for w in stored}, {_scope(tenant, w) for w in stored})
        return list(outcomes)

    async def DeleteMemory(
        self, request: pb.DeleteMemoryRequest, context: Any
    ) -> pb.DeleteMemoryResponse:
        tenant = self._tenant(context)
        id_ = parse_memory.id_(request.id, "id")
        repo = parse_memory.repository(tenant, request.repository, "repository")

        async def delete() -> bool:
            closed = await self._app.truth.memories.delete(tenant, repo, id_)
            self._app.written({repo})
            return closed

        return pb.DeleteMemoryResponse(closed_before=not await self._app.commit(delete()))

    async def Learn(self, request: pb.LearnRequest, context: Any) -> pb.LearnResponse:
        tenant = self._tenant(context)
        repo = parse_memory.repository(tenant, request.repository, "repository")
        turn, masked = await self._app.masking.turn(parse_memory.turn(request))
        where = Scope(tenant, request.repository, request.agent_id, request.session_key)

        async def take_in() -> TurnReceipt:
            receipt = await learn(self._app.truth.memories, where, turn, request.request_id)
            self._app.written({repo}, {Scope(tenant, where.repo, where.agent_id)})
            return receipt

        receipt = await self._app.commit(take_in())
        return memory_answers.learned(
            Learned(
                entries=tuple(convert.memory(tenant, one.entry) for one in receipt.receipts),
                skipped_cause=receipt.note,
                repeated=receipt.repeated,
                request_id=receipt.request_id,
                masked=masked,
            )
        )

    # -- reads --------------------------------------------------------------------------------------

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Any) -> pb.GetMemoryResponse:
        tenant = self._tenant(context)
        id_ = parse_memory.id_(request.id, "id")
        repo = parse_memory.repository(tenant, request.repository, "repository")
        as_of = times.as_of(request.as_of)
        entry = await self._app.truth.memories.get(tenant, repo, id_, as_of)
        return pb.GetMemoryResponse(
            memory=memories.memory(
                convert.memory(tenant, entry, with_embedding=request.include_embedding)
            ),
            as_of=read_times.resolved(as_of),
        )

    async def ListMemories(
        self, request: pb.ListMemoriesRequest, context: Any
    ) -> pb.ListMemoriesResponse:
        tenant = self._tenant(context)
        where = parse_memory.filter_(tenant, request.filter)
        where = await visible.narrowed_memories(self._app.truth.search, where)
        if request.page_size < 0:
            raise parse.bad(
                "page_size", f"is {request.page_size}; it must be 0 to {parse.MAX_PAGE}"
            )
        limit = min(request.page_size or parse.DEFAULT_PAGE, parse.MAX_PAGE)
        parse.text(request.page_token, "page_token", 1024)
        as_of = times.as_of(request.as_of)
        while True:
            page = await self._app.truth.memories.list(
                where,
                limit=limit,
                after=request.page_token,
                as_of=as_of,
                include_superseded=request.include_superseded,
            )
            entries = tuple(convert.memory(tenant, entry) for entry in page.entries)
            response = memory_answers.page(Memories(entries, page.next, as_of))
            size = response.ByteSize()
            if size <= self._room or limit == 1:
                return response
            # Where the next page starts only the store can say, so a shorter page is asked for.
            limit = max(1, min(limit - 1, len(page.entries) * self._room // size * 9 // 10))

    async def QueryMemories(
        self, request: pb.QueryMemoriesRequest, context: Any
    ) -> pb.QueryMemoriesResponse:
        start = perf_counter()
        deadline = self._limits.deadline(_SERVICE + "QueryMemories", context)
        tenant = self._tenant(context)
        options = self._options(tenant, request)
        seen = await visible.narrowed_memories(self._app.truth.search, options.filter)
        options = replace(options, filter=seen)
        parse.text(request.query, "query", parse_memory.MAX_QUERY_BYTES)
        vector = parse_memory.vector(request.embedding, "embedding")
        if not request.query.strip() and vector is None:
            raise parse.bad("query", "is empty; say what to look for, or send an embedding")
        text, _ = await self._app.masking.text(request.query)
        found = await self._app.memory_query.query(text, vector, options, deadline)
        matches = tuple(
            replace(match, entry=convert.memory(tenant, match.entry)) for match in found.matches
        )
        degraded = convert.degraded(found.degraded)
        answer = MemoryAnswer(matches, degraded, options.as_of, took_ms=0.0)
        response = memory_answers.answer(answer)
        convert.fit_matches(response, self._room)
        response.took_ms = (perf_counter() - start) * 1e3
        return response

    async def GetSavings(
        self, request: pb.GetSavingsRequest, context: Any
    ) -> pb.GetSavingsResponse:
        return await savings.get(self._app, self._tenant(context), request)

    def _options(self, tenant: str, request: pb.QueryMemoriesRequest) -> MemoryQueryOptions:
        most = parse_memory.MAX_TOP_K
        return MemoryQueryOptions(
            filter=parse_memory.filter_(tenant, request.filter),
            top_k=parse.in_range(request.top_k, "top_k", 0, most) or parse_memory.DEFAULT_TOP_K,
            min_score=parse_memory.share(request.min_score, "min_score"),
            as_of=times.as_of(request.as_of),
        )


def _scope(tenant: str, write: MemoryWrite) -> Scope:
    return Scope(tenant, unqualify(tenant, write.entry.repo), write.entry.agent_id)


def _stored(tenant: str, masked: _Masked, receipt: MemoryReceipt) -> pb.StoreMemoryResponse:
    return memory_answers.stored(
        StoredMemory(
            entry=convert.memory(tenant, receipt.entry),
            repeated=receipt.repeated,
            duplicate=receipt.duplicate,
            similar=receipt.similar,
            request_id=masked.write.request_id,
            masked=masked.covered,
        )
    )


def _result(
    tenant: str, masked: _Masked | PlaitError, outcome: Outcome
) -> pb.BatchStoreMemoriesResult:
    if isinstance(masked, PlaitError) or isinstance(outcome, PlaitError):
        error = outcome if isinstance(outcome, PlaitError) else masked
        assert isinstance(error, PlaitError)
        return pb.BatchStoreMemoriesResult(error=convert.item_error(tenant, error))
    return pb.BatchStoreMemoriesResult(response=_stored(tenant, masked, outcome))
