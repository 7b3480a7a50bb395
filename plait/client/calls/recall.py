"""Calls about recalls as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID

from plait.client import decode
from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.client.calls.knowledge import as_of_of, fusion_of, mode_of
from plait.client.recall_values import FeedbackTaken, RecallResult, Replayed
from plait.domain.errors import InvalidInput
from plait.domain.recall import ItemVerdict, RecallFormat, RecallId, RecallOptions, Verdict
from plait.domain.values import Collection, Filter, ItemId, Outcome, Timing
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import memory_messages, messages, recall_messages
from plait.wire.memory_messages import When
from plait.wire.sendable import number, sendable

_SERVICE = "KnowledgeService"
MAX_COOLDOWN_S = 10 * 365 * 86_400.0
Ids = Iterable[UUID | str]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a recall asks beside its text and its options."""

    where: Filter | None = None
    collections: Sequence[Collection] = ()
    attached: str = ""
    mode: Literal["fast", "full"] = "fast"
    fusion: Literal["minmax", "rrf"] | None = None
    max_items: int = 0
    stages_off: Sequence[str] = ()
    why_not: Ids = ()
    explain: bool = False
    with_content: bool = False
    valid_as_of: When = None
    recorded_as_of: When = None


def options(
    format: RecallFormat | str,
    budget_tokens: int,
    window_tokens: int,
    prefer_source: bool,
    tokenizer: str,
    session_key: str,
    cooldown_s: float | None,
    min_score: float | None,
    receipt: bool,
) -> RecallOptions:
    """Raises: InvalidInput, for a format, time or score that can be none."""
    number(recall_messages.FORMATS, format, "format")
    if cooldown_s is not None and not 0.0 <= cooldown_s <= MAX_COOLDOWN_S:
        raise InvalidInput(
            f"cooldown_s is {cooldown_s}; give seconds, 0 to {MAX_COOLDOWN_S:.0f}",
            field="cooldown_s",
        )
    if min_score is not None and min_score < 0.0:  # above 1 the server refuses it
        raise InvalidInput(f"min_score is {min_score}; it must be 0 to 1", field="min_score")
    return RecallOptions(
        format=RecallFormat(format),
        budget_tokens=budget_tokens,
        window_tokens=window_tokens,
        tokenizer=tokenizer,
        session_key=session_key,
        cooldown_s=-1.0 if cooldown_s is None else cooldown_s,
        min_score=-1.0 if min_score is None else min_score,
        receipt=receipt,
        prefer_source=prefer_source,
    )


@sendable
def recall(
    query: str, asked: Asked, options: RecallOptions, timeout_s: float | None
) -> Call[RecallResult]:
    """Retried: a second try leaves a second receipt, which harms nobody."""
    where = _everything(asked.where, asked.collections)
    request = pb.RecallRequest(
        query=query,
        filter=messages.filter_(where) if where else None,
        attached=asked.attached,
        mode=mode_of(asked.mode),
        format=recall_messages.FORMATS[options.format],
        fusion=fusion_of(asked.fusion),
        stages_off=asked.stages_off,
        prefer_source=options.prefer_source,
        budget_tokens=options.budget_tokens,
        window_tokens=options.window_tokens,
        tokenizer=options.tokenizer,
        max_items=asked.max_items,
        min_score=None if options.min_score < 0 else options.min_score,
        as_of=as_of_of(where, asked.valid_as_of, asked.recorded_as_of),
        session_key=options.session_key,
        cooldown=None if options.cooldown_s < 0 else recall_messages.duration(options.cooldown_s),
        skip_receipt=not options.receipt,
        explain=asked.explain,
        why_not=[str(id_) for id_ in asked.why_not],
        include_content=asked.with_content,
    )
    timeout = timeout_s or timeouts.SEARCH_S
    return Call(_SERVICE, "Recall", request, pb.RecallResponse, recalled, timeout)


def _everything(where: Filter | None, collections: Sequence[Collection]) -> Filter | None:
    """`where` in `collections`; where those are not said, a filter's default, which is search's, gives way
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
    return Call(_SERVICE, "ReplayRecall", request, pb.ReplayRecallResponse, _replayed, timeout)


def recalled(message: pb.RecallResponse) -> RecallResult:
    items = tuple(recall_messages.item_of(item) for item in message.items)
    ranks = {
        said.item.id: recall_messages.ranks_of(item.stages)
        for said, item in zip(items, message.items, strict=True)
        if item.stages
    }
    return RecallResult(
        recall_id=RecallId(UUID(message.recall_id)) if message.recall_id else None,
        context=message.context,
        items=items,
        omitted=tuple(recall_messages.omission_of(o) for o in message.omitted),
        tokens=message.tokens,
        budget=message.budget_tokens,
        counted=recall_messages.token_count_of(message.token_count),
        silence=message.silence,
        kind=message.kind,
        impact=recall_messages.impact_of(message.impact),
        revisions=decode.revisions(message.revisions),
        degraded=decode.degraded(message.degraded),
        why_not=recall_messages.fates_of(message.why_not),
        ranks=ranks,
        timings=tuple(Timing(t.stage, t.took_ms) for t in message.timings),
        took_ms=message.took_ms,
        as_of=memory_messages.resolved_of(message.as_of),
    )


def _replayed(message: pb.ReplayRecallResponse) -> Replayed:
    return Replayed(recalled(message.recall), message.same)


# -- feedback ------------------------------------------------------------------------------------------


def verdicts(
    helped: Ids, harmed: Ids, unused: Ids, said: Sequence[ItemVerdict]
) -> tuple[ItemVerdict, ...]:
    """Raises: ValueError, for an id that is no UUID."""
    named = ((Verdict.HELPED, helped), (Verdict.HARMED, harmed), (Verdict.UNUSED, unused))
    return (
        *(
            ItemVerdict(ItemId(id_ if isinstance(id_, UUID) else UUID(id_)), verdict)
            for verdict, ids in named
            for id_ in ids
        ),
        *said,
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
        items=[
            pb.ItemFeedback(
                item_id=str(v.item_id),
                verdict=number(recall_messages.VERDICTS, v.verdict, "verdict"),
                comment=v.comment,
            )
            for v in verdicts
        ],
        outcome=messages.outcome(outcome) if outcome else None,
        proof=proof,
    )
    timeout = timeout_s or timeouts.WRITE_S
    return Call(_SERVICE, "ReportFeedback", request, pb.ReportFeedbackResponse, _taken, timeout)


def _taken(message: pb.ReportFeedbackResponse) -> FeedbackTaken:
    return FeedbackTaken(
        accepted=message.accepted,
        unknown=tuple(UUID(id_) for id_ in message.unknown_item_ids),
        attributed=message.attributed,
        links=message.links,
        repeated=message.repeated,
        request_id=message.request_id,
    )
