"""The asynchronous client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import grpc
import grpc.aio

from plait.client import here
from plait.client.aio.keys import AsyncKeyMethods
from plait.client.aio.memory import AsyncMemoryMethods
from plait.client.aio.recall import AsyncRecallMethods
from plait.client.calls import knowledge
from plait.client.calls.call import Call
from plait.client.errors import PlaitRpcError, from_rpc
from plait.client.transport import OPTIONS, Endpoint, endpoint, may_retry, more_telling, pauses_of
from plait.domain.options import SEARCH_DEFAULTS, SearchOptions
from plait.lazy import lazy_module

if TYPE_CHECKING:
    from plait.client.calls import admin as admin_calls
    from plait.client.calls import index as index_calls
    from plait.domain.answers.graph import GraphAnswer
    from plait.domain.answers.indexing import IndexJob, Repository
    from plait.domain.answers.memories import AppendedEpisode
    from plait.domain.answers.search import SearchResult
    from plait.domain.answers.status import Stats
    from plait.domain.options import When
    from plait.domain.values import Episode, Filter
    from plait.settings import Settings
    from plait.v1 import knowledge_service_pb2
else:
    admin_calls = lazy_module("plait.client.calls.admin")
    index_calls = lazy_module("plait.client.calls.index")
    knowledge_service_pb2 = lazy_module("plait.v1.knowledge_service_pb2")

T = TypeVar("T")


class AsyncPlaitClient(AsyncMemoryMethods, AsyncRecallMethods, AsyncKeyMethods):
    """Calls a Plait server from asyncio. One channel: share the client, and close it.

    `target`: `host:port`, or `unix:/path/to/socket`; empty: what PLAIT_SERVER names, else the service of this
    PLAIT_HOME, started in the background where none runs. Every call raises `PlaitRpcError` when it fails, has
    a deadline (`timeout_s` overrides it), and is sent again when no server answered, if that is safe.

    `token`: what is shown over TCP, a server's token or an API key; empty: `client.token`, else the token of
    this home's own server. `settings`: where these are looked up; None: loaded as commands load them.

    `tenant`: whose data the calls mean; empty: the server's own setting. Reads name their repositories,
    or say that all are meant (`Filter.all_repos`); one that does neither means the repository whose folder
    holds the current one, else the only one that is indexed.
    """

    def __init__(
        self,
        target: str = "",
        *,
        tenant: str = "",
        token: str = "",
        settings: Settings | None = None,
    ) -> None:
        found = endpoint(target, tenant, token, settings)
        self.target = found.target
        self.tenant = tenant
        self._metadata = found.metadata
        self._channel = open_channel(found)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close(None)

    async def healthy(self, *, timeout_s: float = 5.0) -> bool:
        """Whether the server reports that it can serve. Raises PlaitRpcError when it doesn't answer."""
        return await self._run(knowledge.healthy(timeout_s))

    async def search(
        self,
        query: str,
        *,
        where: Filter | None = None,
        k: int = 0,
        min_score: float = 0.0,
        options: SearchOptions = SEARCH_DEFAULTS,
        timeout_s: float | None = None,
    ) -> SearchResult:
        """The `k` items that answer `query` best (0: the server's setting)."""
        return await self._run(knowledge.search(query, where, k, min_score, options, timeout_s))

    async def graph_query(
        self,
        cypher: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        repositories: Sequence[str] = (),
        all_repositories: bool = False,
        max_rows: int = 0,
        timeout_s: float | None = None,
        valid_as_of: When = None,
        recorded_as_of: When = None,
    ) -> GraphAnswer:
        """One read-only Cypher statement."""
        where = knowledge.GraphScope(repositories, all_repositories, valid_as_of, recorded_as_of)
        return await self._run(
            knowledge.graph_query(cypher, parameters, where, max_rows, timeout_s)
        )

    async def template(
        self,
        name: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        repositories: Sequence[str] = (),
        all_repositories: bool = False,
        max_rows: int = 0,
        timeout_s: float | None = None,
        valid_as_of: When = None,
        recorded_as_of: When = None,
    ) -> GraphAnswer:
        """A named graph query: callers, callees, impact and so on."""
        where = knowledge.GraphScope(repositories, all_repositories, valid_as_of, recorded_as_of)
        return await self._run(knowledge.template(name, parameters, where, max_rows, timeout_s))

    async def append_episode(
        self, episode: Episode, *, timeout_s: float | None = None
    ) -> AppendedEpisode:
        """Store an agent run; safe to repeat."""
        return await self._run(knowledge.append_episode(episode, timeout_s))

    async def ingest(
        self, episodes: AsyncIterable[Episode] | Iterable[Episode]
    ) -> AsyncIterator[AppendedEpisode | PlaitRpcError]:
        """Store many agent runs over one stream: an answer each, in their order, once it is durable.

        What is refused is an error in its place. When the stream itself breaks it raises; to send the
        rest again, or all, is harmless.
        """
        stream = self._channel.stream_stream(
            knowledge.INGEST_PATH,
            request_serializer=knowledge_service_pb2.IngestEpisodesRequest.SerializeToString,
            response_deserializer=knowledge_service_pb2.IngestEpisodesResponse.FromString,
        )
        call: Any = stream(knowledge.async_ingest_requests(episodes), metadata=self._metadata)
        try:
            async for message in call:
                yield knowledge.ingested(message)
        except grpc.aio.AioRpcError as exc:
            raise from_rpc(exc) from None
        finally:
            call.cancel()

    async def start_index(
        self,
        path: str,
        *,
        repository: str = "",
        embed: bool = True,
        move: bool = False,
        changed: Collection[str] | Literal["all"] | None = None,
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> IndexJob:
        """Begin to index a folder of the server's machine.

        `changed`: of a caller who follows the folder, the paths in it that changed since its last run, or "all" when
        any may have; the server then keeps in memory what makes the next run short.
        """
        return await self._run(
            index_calls.start_index(
                path,
                repository=repository,
                embed=embed,
                move=move,
                changed=changed,
                request_id=request_id,
                timeout_s=timeout_s,
            )
        )

    async def get_index_job(self, job_id: str, *, timeout_s: float | None = None) -> IndexJob:
        return await self._run(index_calls.get_index_job(job_id, timeout_s))

    async def watch_index_job(self, job_id: str) -> AsyncIterator[IndexJob]:
        """The job now and at each change; the last one is final."""
        call = index_calls.watch_index_job(job_id)
        stream = self._channel.unary_stream(
            call.path,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        try:
            async for message in stream(call.request, metadata=self._metadata):
                yield call.decode(message)
        except grpc.aio.AioRpcError as exc:
            raise from_rpc(exc) from None

    async def list_repositories(self, *, timeout_s: float | None = None) -> tuple[Repository, ...]:
        """Every indexed repository, by name."""
        found, token = await self._run(index_calls.list_repositories("", timeout_s))
        while token:
            page, token = await self._run(index_calls.list_repositories(token, timeout_s))
            found += page
        return found

    async def delete_repository(self, name: str, *, timeout_s: float | None = None) -> None:
        await self._run(index_calls.delete_repository(name, timeout_s))

    async def stats(self, *, include_graph: bool = False, timeout_s: float | None = None) -> Stats:
        return await self._run(admin_calls.stats(include_graph, timeout_s))

    async def _run(self, call: Call[T]) -> T:
        try:
            return await self._send(call)
        except PlaitRpcError as exc:
            if not here.is_missing(call, exc):
                raise
            error = exc
        return await self._send(here.scoped(call, await self.list_repositories(), error))

    async def _send(self, call: Call[T]) -> T:
        method = self._channel.unary_unary(
            call.path,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        end = time.monotonic() + call.timeout_s
        pauses = pauses_of(call, call.timeout_s)
        before: PlaitRpcError | None = None
        while True:
            try:
                left_s = max(0.001, end - time.monotonic())
                return call.decode(
                    await method(call.request, timeout=left_s, metadata=self._metadata)
                )
            except grpc.aio.AioRpcError as exc:
                before = error = more_telling(before, from_rpc(exc))
            pause_s = next(pauses, None) if may_retry(error) else None
            if pause_s is None or time.monotonic() + pause_s >= end:
                raise error
            await asyncio.sleep(pause_s)


def open_channel(found: Endpoint) -> grpc.aio.Channel:
    if found.credentials is None:
        return grpc.aio.insecure_channel(found.target, options=OPTIONS)
    return grpc.aio.secure_channel(found.target, found.credentials, options=OPTIONS)
