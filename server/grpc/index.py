"""IndexService: index runs on the server's machine, and what is indexed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from plait.v1 import index_service_pb2 as pb
from plait.v1 import index_service_pb2_grpc
from server.app import App
from server.grpc import convert, parse


class IndexService(index_service_pb2_grpc.IndexServiceServicer):
    def __init__(self, app: App) -> None:
        self._app = app

    async def StartIndex(
        self, request: pb.StartIndexRequest, context: Any
    ) -> pb.StartIndexResponse:
        asked = parse.index(request)
        return pb.StartIndexResponse(
            job=convert.job(self._app.jobs.start(asked, request.request_id))
        )

    async def GetIndexJob(
        self, request: pb.GetIndexJobRequest, context: Any
    ) -> pb.GetIndexJobResponse:
        return pb.GetIndexJobResponse(job=convert.job(self._app.jobs.get(request.id)))

    async def WatchIndexJob(
        self, request: pb.WatchIndexJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchIndexJobResponse]:
        async for job in self._app.jobs.watch(request.id):
            yield pb.WatchIndexJobResponse(job=convert.job(job))

    async def ListRepositories(
        self, request: pb.ListRepositoriesRequest, context: Any
    ) -> pb.ListRepositoriesResponse:
        size, after = parse.page(request.page_size, request.page_token)
        known = sorted(await self._app.truth.repositories(), key=lambda r: r.repo)
        rest = [r for r in known if r.repo > after]
        more = parse.page_token(rest[size - 1].repo) if len(rest) > size else ""
        return pb.ListRepositoriesResponse(
            repositories=[convert.repository(r) for r in rest[:size]], next_page_token=more
        )

    async def DeleteRepository(
        self, request: pb.DeleteRepositoryRequest, context: Any
    ) -> pb.DeleteRepositoryResponse:
        name = parse.repository(request.name, "name")
        await self._app.commit(self._delete(name))
        return pb.DeleteRepositoryResponse()

    async def _delete(self, name: str) -> None:
        await self._app.truth.delete_repository(name)
        self._app.project_soon()
