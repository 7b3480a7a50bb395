"""IndexService: index runs on the server's machine, and what is indexed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from etl.pipeline import IndexRequest
from plait.domain.errors import IndexJobUnknown, PathNotAllowed
from plait.v1 import index_service_pb2 as pb
from plait.v1 import index_service_pb2_grpc
from plait.wire import indexing
from server.access import current, roots
from server.app import App
from server.background_jobs.index_jobs import Job
from server.grpc import visible
from server.grpc.messages import convert, parse, scope


class IndexService(index_service_pb2_grpc.IndexServiceServicer):
    def __init__(self, app: App) -> None:
        self._app = app

    def _tenant(self, context: Any) -> str:
        return scope.tenant_of(context, self._app.settings.scope)

    async def StartIndex(
        self, request: pb.StartIndexRequest, context: Any
    ) -> pb.StartIndexResponse:
        asked = parse.index(request, self._tenant(context))
        asked = replace(asked, root=await self._root(asked))
        scope.name_in(asked.tenant, asked.repo or asked.root.name)
        # Request ids are a tenant's own, and a limited key's: what one repeats may be another's job.
        whose = f"{asked.tenant} {current.caller().id if visible.is_limited() else ''}"
        named = f"{whose} {request.request_id}" if request.request_id else ""
        return pb.StartIndexResponse(
            job=indexing.job(convert.job(self._app.jobs.start(asked, named)))
        )

    async def _root(self, asked: IndexRequest) -> Path:
        """The folder with its links followed. The owner may have one brought up to date that was indexed
        before, wherever it lies. Raises: PathNotAllowed."""
        caller = current.caller()
        try:
            return roots.check(asked.root, caller, self._app.settings.server)
        except PathNotAllowed:
            real = roots.real(asked.root)
            known = await self._app.truth.repositories.list(asked.tenant) if caller.local else ()
            if not any(str(real) == one.root for one in known):
                raise
            return real

    async def GetIndexJob(
        self, request: pb.GetIndexJobRequest, context: Any
    ) -> pb.GetIndexJobResponse:
        job = convert.job(self._job(request.id, context), with_report=True)
        return pb.GetIndexJobResponse(job=indexing.job(job))

    def _job(self, id_: str, context: Any) -> Job:
        """Raises: IndexJobUnknown, also for one of a repository that the caller does not see."""
        job = self._app.jobs.get(id_, self._tenant(context))
        if not current.caller().sees(job.repo):
            raise IndexJobUnknown(id_)
        return job

    async def WatchIndexJob(
        self, request: pb.WatchIndexJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchIndexJobResponse]:
        self._job(request.id, context)
        async for job in self._app.jobs.watch(request.id, self._tenant(context)):
            yield pb.WatchIndexJobResponse(job=indexing.job(convert.job(job)))

    async def ListRepositories(
        self, request: pb.ListRepositoriesRequest, context: Any
    ) -> pb.ListRepositoriesResponse:
        tenant = self._tenant(context)
        size, after = parse.page(request.page_size, request.page_token)
        known = [
            r
            for r in await self._app.truth.repositories.list(tenant)
            if visible.sees(tenant, r.repo)
        ]
        known.sort(key=lambda r: r.repo)
        rest = [r for r in known if r.repo > after]
        more = parse.page_token(rest[size - 1].repo) if len(rest) > size else ""
        return pb.ListRepositoriesResponse(
            repositories=[indexing.repository(convert.repository(tenant, r)) for r in rest[:size]],
            next_page_token=more,
        )

    async def DeleteRepository(
        self, request: pb.DeleteRepositoryRequest, context: Any
    ) -> pb.DeleteRepositoryResponse:
        tenant = self._tenant(context)
        name = scope.name_in(tenant, parse.repository(request.name, "name"), "name")
        await self._app.commit(self._delete(name, tenant))
        return pb.DeleteRepositoryResponse()

    async def _delete(self, name: str, tenant: str) -> None:
        await self._app.truth.repositories.delete(name, tenant)
        self._app.follower.drop(tenant, scope.name_out(tenant, name))
        await self._app.clear_caches()
        self._app.remove_soon()
