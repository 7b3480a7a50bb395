"""Recall, its replay and its feedback: parse the request, ask the app, convert the answer."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from plait.domain.answers.recalls import FeedbackTaken
from plait.domain.deadline import Deadline
from plait.domain.errors import RecallUnknown
from plait.domain.memory import AsOf
from plait.domain.recall import Feedback, FeedbackReceipt, RecallId
from plait.retrieval.explain import MAX_IDS
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import recalls
from server.app import App
from server.grpc import visible
from server.grpc.messages import convert_recall, parse, parse_recall, scope, times
from server.grpc.messages.convert_recall import Shape


class Recalls:
    """The three calls about recalls, for one tenant each."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def recall(
        self, tenant: str, request: pb.RecallRequest, deadline: Deadline
    ) -> pb.RecallResponse:
        start = perf_counter()
        query, options = parse_recall.recall(request, deadline)
        where = replace(scope.filter_in(tenant, query.where), as_of=times.as_of(request.as_of))
        where = await visible.narrowed(self._app.truth.search, where)
        query = await self._app.masking.query(replace(query, where=where))
        answer = await self._app.recall.recall(query, options)
        shape = Shape(request.explain, request.include_content)
        response = recalls.response(convert_recall.result(tenant, answer, shape, where.as_of))
        return self._fitted(response, start)

    async def replay(self, tenant: str, request: pb.ReplayRecallRequest) -> pb.ReplayRecallResponse:
        start = perf_counter()
        id_ = parse_recall.recall_id(request.recall_id)
        await self._check_seen(tenant, id_)
        answer = await self._app.recall.replay(
            tenant,
            id_,
            explain=request.explain,
            why_not=parse.ids(request.why_not, "why_not", MAX_IDS),
        )
        shape = Shape(request.explain, request.include_content)
        times_of = AsOf(answer.view.valid, answer.view.recorded)
        response = recalls.response(convert_recall.result(tenant, answer, shape, times_of))
        return pb.ReplayRecallResponse(recall=self._fitted(response, start), same=answer.same)

    async def report(
        self, tenant: str, request: pb.ReportFeedbackRequest
    ) -> pb.ReportFeedbackResponse:
        feedback, _ = self._app.masking.feedback(parse_recall.feedback(request, tenant))
        await self._check_seen(tenant, feedback.recall_id)
        taken = await self._app.commit(self._report(feedback))
        return recalls.taken(
            FeedbackTaken(
                accepted=taken.accepted,
                unknown=taken.unknown,
                attributed=taken.attributed,
                links=taken.links,
                repeated=taken.repeated,
                request_id=feedback.request_id,
            )
        )

    async def _check_seen(self, tenant: str, id_: RecallId) -> None:
        """Raises: RecallUnknown, also for one over repositories that the caller does not all see."""
        if not visible.is_limited():
            return
        receipt = await self._app.truth.recalls.receipt(tenant, id_)
        repos = {*receipt.repos, *receipt.revisions}
        if not repos or any(not visible.sees(tenant, repo) for repo in repos):
            raise RecallUnknown(id_)

    async def _report(self, feedback: Feedback) -> FeedbackReceipt:
        taken = await self._app.recall.report(feedback)
        if taken.links:
            self._app.project_soon()
        return taken

    def _fitted(self, response: pb.RecallResponse, start: float) -> pb.RecallResponse:
        convert_recall.fit(response, self._app.settings.server.max_message_bytes * 9 // 10)
        response.took_ms = (perf_counter() - start) * 1e3
        return response
