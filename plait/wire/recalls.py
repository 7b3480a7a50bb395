"""Recalls, and what became of them, ↔ messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from plait.domain.answers.recalls import FeedbackTaken, RecallResult, Replayed
from plait.domain.options import RecallOptions
from plait.domain.recall import ItemVerdict, RecalledItem, RecallFormat, RecallId, Verdict
from plait.domain.values import Filter, ItemId
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import recall_pb2
from plait.wire import items, read_times, recall_parts, scalars
from plait.wire.search import FUSION_OF, FUSIONS, MODE_OF, MODES
from plait.wire.sendable import number

FORMATS: Mapping[RecallFormat, recall_pb2.RecallFormat.ValueType] = {
    RecallFormat.MARKDOWN: recall_pb2.RECALL_FORMAT_MARKDOWN,
    RecallFormat.STRUCTURED: recall_pb2.RECALL_FORMAT_STRUCTURED,
    RecallFormat.REPO_MAP: recall_pb2.RECALL_FORMAT_REPO_MAP,
}
FORMAT_OF: Mapping[int, RecallFormat] = {
    recall_pb2.RECALL_FORMAT_UNSPECIFIED: RecallFormat.MARKDOWN,
    **{number: format_ for format_, number in FORMATS.items()},
}
VERDICTS: Mapping[Verdict, pb.FeedbackVerdict.ValueType] = {
    Verdict.HELPED: pb.FEEDBACK_VERDICT_HELPED,
    Verdict.HARMED: pb.FEEDBACK_VERDICT_HARMED,
    Verdict.UNUSED: pb.FEEDBACK_VERDICT_UNUSED,
}
VERDICT_OF = {number: verdict for verdict, number in VERDICTS.items()}


def request(
    query: str, where: Filter | None, attached: str, options: RecallOptions
) -> pb.RecallRequest:
    """Raises: KeyError, for a mode, a fusion or a format that is none."""
    return pb.RecallRequest(
        query=query,
        filter=items.filter_(where) if where else None,
        attached=attached,
        mode=MODES[options.mode],
        format=FORMATS[RecallFormat(options.format)],
        fusion=FUSIONS[options.fusion],
        stages_off=options.stages_off,
        prefer_source=options.prefer_source,
        budget_tokens=options.budget_tokens,
        window_tokens=options.window_tokens,
        tokenizer=options.tokenizer,
        max_items=options.max_items,
        min_score=options.min_score,
        as_of=read_times.of_read(where, options),
        session_key=options.session_key,
        cooldown=None if options.cooldown_s is None else scalars.duration(options.cooldown_s),
        skip_receipt=not options.receipt,
        explain=options.explain,
        why_not=[str(id_) for id_ in options.why_not],
        include_content=options.with_content,
    )


def options_of(message: pb.RecallRequest) -> RecallOptions:
    """Raises: KeyError, for a mode, a fusion or a format that is none; ValueError, for a time."""
    return RecallOptions(
        mode=MODE_OF[message.mode],
        fusion=FUSION_OF[message.fusion],
        stages_off=tuple(message.stages_off),
        explain=message.explain,
        why_not=tuple(message.why_not),
        valid_as_of=read_times.point_of(message.as_of.valid),
        recorded_as_of=read_times.point_of(message.as_of.recorded),
        format=FORMAT_OF[message.format],
        budget_tokens=message.budget_tokens,
        window_tokens=message.window_tokens,
        prefer_source=message.prefer_source,
        tokenizer=message.tokenizer,
        max_items=message.max_items,
        min_score=message.min_score if message.HasField("min_score") else None,
        session_key=message.session_key,
        cooldown_s=scalars.seconds_of(message.cooldown) if message.HasField("cooldown") else None,
        receipt=not message.skip_receipt,
        with_content=message.include_content,
    )


def response(value: RecallResult) -> pb.RecallResponse:
    return pb.RecallResponse(
        recall_id=str(value.recall_id) if value.recall_id else "",
        context=value.context,
        items=[_item(item, value) for item in value.items],
        omitted=[recall_parts.omission(o) for o in value.omitted],
        tokens=value.tokens,
        tokenizer=value.counted.tokenizer,
        silence=value.silence,
        kind=value.kind,
        impact=recall_parts.impact(value.impact) if value.impact else None,
        revisions=items.revisions(value.revisions),
        degraded=items.degraded(value.degraded),
        budget_tokens=value.budget,
        token_count=recall_parts.token_count(value.counted),
        as_of=read_times.resolved(value.as_of),
        timings=items.timings(value.timings),
        took_ms=value.took_ms,
        why_not=recall_parts.fates(value.why_not),
    )


def response_of(message: pb.RecallResponse) -> RecallResult:
    recalled = tuple(recall_parts.item_of(item) for item in message.items)
    return RecallResult(
        recall_id=RecallId(UUID(message.recall_id)) if message.recall_id else None,
        context=message.context,
        items=recalled,
        omitted=tuple(recall_parts.omission_of(o) for o in message.omitted),
        tokens=message.tokens,
        budget=message.budget_tokens,
        counted=recall_parts.token_count_of(message.token_count),
        silence=message.silence,
        kind=message.kind,
        impact=recall_parts.impact_of(message.impact),
        revisions=items.revisions_of(message.revisions),
        degraded=items.degraded_of(message.degraded),
        why_not=recall_parts.fates_of(message.why_not),
        ranks={
            one.item.id: recall_parts.ranks_of(sent.stages)
            for one, sent in zip(recalled, message.items, strict=True)
            if sent.stages
        },
        timings=items.timings_of(message.timings),
        took_ms=message.took_ms,
        as_of=read_times.resolved_of(message.as_of),
    )


def _item(item: RecalledItem, answer: RecallResult) -> recall_pb2.RecallItem:
    out = recall_parts.item(item)
    if ranks := answer.ranks.get(item.item.id):
        out.stages.extend(recall_parts.ranks(ranks))
    return out


def replayed_of(message: pb.ReplayRecallResponse) -> Replayed:
    return Replayed(response_of(message.recall), message.same)


# -- feedback ------------------------------------------------------------------------------------------


def verdicts(values: Iterable[ItemVerdict]) -> list[pb.ItemFeedback]:
    return [
        pb.ItemFeedback(
            item_id=str(v.item_id),
            verdict=number(VERDICTS, v.verdict, "verdict"),
            comment=v.comment,
        )
        for v in values
    ]


def verdict_of(message: pb.ItemFeedback) -> ItemVerdict:
    """Raises: KeyError, for a verdict that is none; ValueError, for an id."""
    return ItemVerdict(ItemId(UUID(message.item_id)), VERDICT_OF[message.verdict], message.comment)


def taken(value: FeedbackTaken) -> pb.ReportFeedbackResponse:
    return pb.ReportFeedbackResponse(
        accepted=value.accepted,
        unknown_item_ids=[str(id_) for id_ in value.unknown],
        attributed=value.attributed,
        links=value.links,
        repeated=value.repeated,
        request_id=value.request_id,
    )


def taken_of(message: pb.ReportFeedbackResponse) -> FeedbackTaken:
    return FeedbackTaken(
        accepted=message.accepted,
        unknown=tuple(UUID(id_) for id_ in message.unknown_item_ids),
        attributed=message.attributed,
        links=message.links,
        repeated=message.repeated,
        request_id=message.request_id,
    )
