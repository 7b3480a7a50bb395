"""KnowledgeService: parse the request, ask the app, convert the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from plait.domain.answers import GraphResult
from plait.domain.deadline import Deadline
from plait.domain.errors import InvalidInput, NotBuilt
from plait.domain.values import Episode, EpisodeReceipt, Filter, Revision
from plait.ports import GraphStore, View
from plait.retrieval.graph_query import read_steady
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import knowledge_service_pb2_grpc
from server.app import App
from server.grpc import convert, parse
from server.grpc.limits import Limits

Question = Callable[[GraphStore], Awaitable[GraphResult]]

_SERVICE = "/plait.v1.KnowledgeService/"


class KnowledgeService(knowledge_service_pb2_grpc.KnowledgeServiceServicer):
    def __init__(self, app: App, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse:
        start = perf_counter()
        deadline = self._limits.deadline(_SERVICE + "Search", context)
        answer = await self._app.search.search(parse.search(request, deadline))
        response = convert.search(
            answer, explain=request.explain, took_ms=(perf_counter() - start) * 1e3
        )
        # A tenth stays for what frames the message and for what `fit` itself adds.
        convert.fit(response, self._app.settings.server.max_message_bytes * 9 // 10)
        return response

    async def GraphQuery(
        self, request: pb.GraphQueryRequest, context: Any
    ) -> pb.GraphQueryResponse:
        start = perf_counter()
        deadline = self._limits.deadline(_SERVICE + "GraphQuery", context)
        repos = parse.repositories(request.repositories, "repositories")
        rows = parse.max_rows(request.max_rows, self._app.settings.graph.max_rows)
        ask = _question(request, rows, deadline)
        result, view = await self._read_graph(repos, ask, deadline)
        shown = _shown(view.revisions, request.repositories)
        return convert.graph(result, shown, (perf_counter() - start) * 1e3)

    async def _read_graph(
        self, repos: tuple[str, ...], ask: Question, deadline: Deadline
    ) -> tuple[GraphResult, View]:
        truth = self._app.truth
        if not self._app.background:
            await self._app.graph_is_current(deadline)
        await truth.view(Filter(repos=repos))  # a wrong name is answered before a graph is started
        store = await self._app.graph()

        async def read() -> tuple[GraphResult, View]:
            return await asyncio.gather(ask(store), truth.view(Filter(repos=repos)))

        return await read_steady(truth, repos, read, deadline)

    async def AppendEpisode(
        self, request: pb.AppendEpisodeRequest, context: Any
    ) -> pb.AppendEpisodeResponse:
        episode = parse.episode(request)
        stored = await self._app.commit(self._append(episode))
        return convert.receipt(stored, episode.request_id)

    async def _append(self, episode: Episode) -> EpisodeReceipt:
        stored = await self._app.truth.append(episode)
        self._app.project_soon()
        return stored

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        raise NotBuilt("Recall is not built yet; use Search", call="KnowledgeService.Recall")

    async def ReportFeedback(
        self, request: pb.ReportFeedbackRequest, context: Any
    ) -> pb.ReportFeedbackResponse:
        raise NotBuilt("ReportFeedback is not built yet", call="KnowledgeService.ReportFeedback")


def _question(request: pb.GraphQueryRequest, rows: int, deadline: Deadline) -> Question:
    """`graph store → awaitable result` for what the request asks. Raises: InvalidInput."""
    match request.WhichOneof("query"):
        case "template":
            name = parse.text(request.template.name, "template.name", parse.MAX_NAME_BYTES)
            values = parse.parameters(request.template.parameters, "template.parameters")
            return lambda store: store.template(name, values, max_rows=rows, deadline=deadline)
        case "cypher":
            cypher = parse.text(request.cypher.text, "cypher.text", parse.MAX_CYPHER_BYTES)
            if not cypher.strip():
                raise InvalidInput("cypher.text is empty; write one statement", field="cypher.text")
            values = parse.parameters(request.cypher.parameters, "cypher.parameters")
            return lambda store: store.query(cypher, values, max_rows=rows, deadline=deadline)
    raise InvalidInput("query is missing; set template or cypher", field="query")


def _shown(revisions: tuple[Revision, ...], asked: Any) -> list[Revision]:
    names = set(asked)
    return [r for r in revisions if not names or r.repo in names]
