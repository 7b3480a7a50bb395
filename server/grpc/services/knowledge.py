"""KnowledgeService: parse the request, ask the app, convert the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from plait.domain.errors import Conflict, InvalidInput, PlaitError
from plait.domain.scope import Scope, unqualify
from plait.domain.values import Episode, EpisodeReceipt
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import knowledge_service_pb2_grpc
from plait.wire import episodes, graph
from plait.wire import search as wire_search
from server.answers import Answer
from server.app import App
from server.grpc import in_use, visible
from server.grpc.limits import Limits
from server.grpc.messages import convert, parse, scope, times
from server.grpc.services import graph_reads, ingest, searches
from server.grpc.services.recall import Recalls
from server.grpc.services.template_reads import TemplateQuestion, TemplateReader

_SERVICE = "/plait.v1.KnowledgeService/"


class KnowledgeService(knowledge_service_pb2_grpc.KnowledgeServiceServicer):
    def __init__(self, app: App, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._recalls = Recalls(app)

    def _tenant(self, context: Any) -> str:
        return scope.tenant_of(context, self._app.settings.scope)

    async def Search(self, request: pb.SearchRequest, context: Any) -> pb.SearchResponse | bytes:  # type: ignore[override]
        """A message, or the bytes of one (`Boundary`)."""
        tenant = self._tenant(context)
        response = await self._search(tenant, request, context)
        in_use.note(self._app, tenant, request.filter.repositories)
        return response

    async def _search(
        self, tenant: str, request: pb.SearchRequest, context: Any
    ) -> pb.SearchResponse | bytes:
        start = perf_counter()
        key = searches.key_of(tenant, request, self._app.settings)
        if (known := await self._known(tenant, key, request)) is not None:
            return wire_search.with_took_ms(known, (perf_counter() - start) * 1e3)
        deadline = self._limits.deadline(_SERVICE + "Search", context)
        query = parse.search(request, deadline)
        where = replace(scope.filter_in(tenant, query.where), as_of=times.as_of(request.as_of))
        where = await visible.narrowed(self._app.truth.search, where)
        query = await self._app.masking.query(replace(query, where=where))
        answer = await self._app.search.search(query)
        response = wire_search.response(convert.search(tenant, answer, query))
        # A tenth stays for what frames the message and for what `fit` itself adds.
        convert.fit(response, self._app.settings.server.max_message_bytes * 9 // 10)
        if key is not None and searches.is_whole(answer):
            kept = Answer(answer.view.version, response.SerializeToString())
            self._app.answers.put(key, kept)
        response.took_ms = (perf_counter() - start) * 1e3
        return response

    async def _known(
        self, tenant: str, key: searches.Key | None, request: pb.SearchRequest
    ) -> bytes | None:
        """The answer that an equal request got before, if its code is still the same.

        Raises: RepositoryNotAllowed, as without one; StoreUnavailable.
        """
        if key is None or (kept := self._app.answers.get(key)) is None:
            return None
        repos = scope.names_in(tenant, request.filter.repositories, "filter.repositories")
        if await self._app.truth.search.version(repos) != kept.version:
            self._app.answers.drop(key)
            return None
        return kept.message

    async def GraphQuery(
        self, request: pb.GraphQueryRequest, context: Any
    ) -> pb.GraphQueryResponse:
        start = perf_counter()
        deadline = self._limits.deadline(_SERVICE + "GraphQuery", context)
        tenant = self._tenant(context)
        asked = graph_reads.parsed(tenant, request, self._app.settings.graph.max_rows)
        if isinstance(asked, TemplateQuestion):
            result, shown = await TemplateReader(self._app, tenant, deadline).read(asked)
        else:
            result, shown = await graph_reads.GraphReader(self._app, tenant, deadline).read(asked)
        in_use.note(self._app, tenant, request.repositories)
        response = graph.answer(convert.graph(tenant, result, shown, asked.as_of))
        response.took_ms = (perf_counter() - start) * 1e3
        return response

    async def AppendEpisode(
        self, request: pb.AppendEpisodeRequest, context: Any
    ) -> pb.AppendEpisodeResponse:
        episode = await self._episode(self._tenant(context), request)
        stored = await self._app.commit(self._append(episode))
        return episodes.appended(convert.receipt(stored, episode))

    async def _episode(self, tenant: str, request: pb.AppendEpisodeRequest) -> Episode:
        """Checked, its repository qualified, its credentials covered. Raises: EpisodeInvalid, InvalidInput."""
        episode = parse.episode(request)
        repo = scope.name_in(tenant, episode.repo, "episode.repository")
        return await self._app.masking.episode(replace(episode, repo=repo, tenant=tenant))

    async def _append(self, episode: Episode) -> EpisodeReceipt:
        stored = await self._app.truth.episodes.append(episode)
        self._app.written({episode.repo}, {_scope(episode)})
        return stored

    async def IngestEpisodes(
        self, requests: AsyncIterator[pb.IngestEpisodesRequest], context: Any
    ) -> AsyncIterator[pb.IngestEpisodesResponse]:
        tenant = self._tenant(context)

        async def store(episodes: Sequence[Episode]) -> Sequence[EpisodeReceipt | PlaitError]:
            return await self._app.commit(self._append_many(episodes))

        async for answer in ingest.answers(tenant, requests, partial(self._episode, tenant), store):
            yield answer

    async def _append_many(
        self, episodes: Sequence[Episode]
    ) -> Sequence[EpisodeReceipt | PlaitError]:
        try:
            stored: Sequence[
                EpisodeReceipt | PlaitError
            ] = await self._app.truth.episodes.append_many(episodes)
        except (InvalidInput, Conflict) as exc:
            if len(episodes) == 1:
                return [exc]
            # One of them is at fault, and nothing of the batch is stored: each alone.
            return [answer for one in episodes for answer in await self._append_many([one])]
        self._app.written({e.repo for e in episodes}, {_scope(e) for e in episodes})
        return stored

    async def Recall(self, request: pb.RecallRequest, context: Any) -> pb.RecallResponse:
        deadline = self._limits.deadline(_SERVICE + "Recall", context)
        tenant = self._tenant(context)
        response = await self._recalls.recall(tenant, request, deadline)
        in_use.note(self._app, tenant, request.filter.repositories)
        return response

    async def ReplayRecall(
        self, request: pb.ReplayRecallRequest, context: Any
    ) -> pb.ReplayRecallResponse:
        return await self._recalls.replay(self._tenant(context), request)

    async def ReportFeedback(
        self, request: pb.ReportFeedbackRequest, context: Any
    ) -> pb.ReportFeedbackResponse:
        return await self._recalls.report(self._tenant(context), request)


def _scope(episode: Episode) -> Scope:
    return Scope(episode.tenant, unqualify(episode.tenant, episode.repo), episode.agent_id)
