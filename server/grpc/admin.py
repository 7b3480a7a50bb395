"""AdminService: what is stored and what waits; project a repository again."""

from __future__ import annotations

from typing import Any

import plait
from plait.client import wire
from plait.domain.errors import InvalidInput, NotBuilt, PlaitError
from plait.domain.values import Filter
from plait.v1 import admin_service_pb2 as pb
from plait.v1 import admin_service_pb2_grpc, types_pb2
from server.app import App
from server.grpc import convert, parse


class AdminService(admin_service_pb2_grpc.AdminServiceServicer):
    def __init__(self, app: App) -> None:
        self._app = app

    async def Compact(self, request: pb.CompactRequest, context: Any) -> pb.CompactResponse:
        raise NotBuilt(
            "Compact is not built yet; nothing is thinned out", call="AdminService.Compact"
        )

    async def Verify(self, request: pb.VerifyRequest, context: Any) -> pb.VerifyResponse:
        raise NotBuilt(
            "Verify is not built yet; Rebuild makes a repository's graph again",
            call="AdminService.Verify",
        )

    async def Rebuild(self, request: pb.RebuildRequest, context: Any) -> pb.RebuildResponse:
        names = parse.repositories(request.repositories, "repositories")
        if not names:
            raise InvalidInput("repositories is empty; name those to rebuild", field="repositories")
        await self._app.truth.view(Filter(repos=names))  # all are known, or nothing is queued
        return pb.RebuildResponse(waiting=await self._app.commit(self._reset(names)))

    async def _reset(self, names: tuple[str, ...]) -> int:
        for name in names:
            await self._app.truth.reset(name)
        waiting = await self._app.truth.waiting()
        self._app.project_soon()
        return waiting

    async def Stats(self, request: pb.StatsRequest, context: Any) -> pb.StatsResponse:
        view = await self._app.truth.view(Filter())
        out = pb.StatsResponse(
            version=plait.__version__,
            start_time=wire.timestamp(self._app.started_at),
            revisions=convert.revisions(view.revisions),
            waiting_projections=await self._app.truth.waiting(),
            embedding_model=view.model,
            embedding_dimension=view.dim,
        )
        if request.include_graph:
            try:
                counts = await (await self._app.graph()).counts()
            except PlaitError as exc:
                out.degraded.append(types_pb2.Degradation(part="graph", cause=exc.reason))
            else:
                out.graph_counts.update(counts)
        return out
