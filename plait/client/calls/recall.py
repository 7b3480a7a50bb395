"""Calls about recalls as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.calls.knowledge import check as check_search
from plait.domain.answers.recalls import FeedbackTaken, RecallResult, Replayed
from plait.domain.errors import InvalidInput
from plait.domain.options import RecallOptions
from plait.domain.recall import ItemVerdict, Verdict
from plait.domain.values import Collection, Filter, ItemId, Outcome
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import episodes, recalls
from plait.wire.sendable import number, sendable

_SERVICE = "KnowledgeService"
MAX_COOLDOWN_S = 10 * 365 * 86_400.0
Ids = Iterable[UUID | str]


def check(options: RecallOptions) -> None:
    """Raises: InvalidInput, for what no message can carry; the server checks the rest."""
    check_search(options)
    number(recalls.FORMATS, options.format, "format")
    cooldown_s, min_score = options.cooldown_s, options.min_score
    if cooldown_s is not None and not 0.0 <= cooldown_s <= MAX_COOLDOWN_S:
        raise InvalidInput(
            f"cooldown_s is {cooldown_s}; give seconds, 0 to {MAX_COOLDOWN_S:.0f}",
            field="cooldown_s",
        )
    if min_score is not None and min_score < 0.0:  # above 1 the server refuses it
        raise InvalidInput(f"min_score is {min_score}; it must be 0 to 1", field="min_score")


@sendable
def recall(
    query: str,
    where: Filter | None,
    collections: Sequence[Collection],
    attached: str,
    options: RecallOptions,
    timeout_s: float | None,
) -> Call[RecallResult]:
    """Retried: a second try leaves a second receipt, which does no harm."""
    check(options)
    request = recalls.request(query, _everything(where, collections), attached, options)
    timeout = timeout_s or timeouts.SEARCH_S
    return Call(_SERVICE, "Recall", request, pb.RecallResponse, recalls.response_of, timeout)


def _everything(where: Filter | None, collections: Sequence[Collection]) -> Filter | None:
    """`where` in `collections`; where those are not given, a filter's default, which is search's, gives way
    to all six."""
    if where is None:
        return None
    if not collections and where.collections == Filter().collections:
        return replace(where, collections=())
    return replace(where, collections=tuple(collections) or where.collections)


@sendable
def replay(
    recall_id: UUID | str,
    explain: bool,
    why_not: Ids,
    with_content: bool,
    timeout_s: float | None,
) -> Call[Replayed]:
    request = pb.ReplayRecallRequest(
        recall_id=str(recall_id),
        explain=explain,
        why_not=[str(id_) for id_ in why_not],
        include_content=with_content,
    )
    timeout = timeout_s or timeouts.SEARCH_S
    return Call(
        _SERVICE, "ReplayRecall", request, pb.ReplayRecallResponse, recalls.replayed_of, timeout
    )


def verdicts(
    helped: Ids, harmed: Ids, unused: Ids, given: Sequence[ItemVerdict]
) -> tuple[ItemVerdict, ...]:
    """Raises: ValueError, for an id that is no UUID."""
    named = ((Verdict.HELPED, helped), (Verdict.HARMED, harmed), (Verdict.UNUSED, unused))
    return (
        *(
            ItemVerdict(ItemId(id_ if isinstance(id_, UUID) else UUID(id_)), verdict)
            for verdict, ids in named
            for id_ in ids
        ),
        *given,
    )


@sendable
def report(
    recall_id: UUID | str,
    verdicts: Sequence[ItemVerdict],
    outcome: Outcome | None,
    proof: Sequence[str],
    request_id: str,
    timeout_s: float | None,
) -> Call[FeedbackTaken]:
    """Without a request id the server makes one of the body, so a retry is safe either way."""
    request = pb.ReportFeedbackRequest(
        request_id=request_id,
        recall_id=str(recall_id),
        items=recalls.verdicts(verdicts),
        outcome=episodes.outcome(outcome) if outcome else None,
        proof=proof,
    )
    timeout = timeout_s or timeouts.WRITE_S
    return Call(
        _SERVICE, "ReportFeedback", request, pb.ReportFeedbackResponse, recalls.taken_of, timeout
    )
