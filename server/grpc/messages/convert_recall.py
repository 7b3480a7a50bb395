"""Recalls → protobuf messages; explanations, which Search's answers have too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plait.domain.memory import AsOf
from plait.domain.recall import Impact, ImpactNode, PastEvent, RecalledItem
from plait.retrieval.recall import RecallAnswer
from plait.retrieval.search_context import Snapshot
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import recall_pb2, types_pb2
from plait.wire import memory_messages, recall_messages
from server.grpc.messages import convert, scope

MAX_OMITTED = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """What of an answer is sent."""

    explain: bool
    with_content: bool


def response(tenant: str, answer: RecallAnswer, shape: Shape, as_of: AsOf) -> pb.RecallResponse:
    block = answer.block
    timings = [types_pb2.StageTiming(stage=t.stage, took_ms=t.took_ms) for t in answer.timings]
    id_ = answer.recall_id or answer.replay_of
    return pb.RecallResponse(
        recall_id=str(id_) if id_ else "",
        context=block.context,
        items=[_item(tenant, item, shape, answer.trail) for item in block.items],
        omitted=[recall_messages.omission(o) for o in block.omitted[:MAX_OMITTED]],
        tokens=block.tokens,
        tokenizer=block.counted.tokenizer,
        silence=block.silence,
        kind=str(answer.kind),
        impact=recall_messages.impact(_impact_out(tenant, answer.impact))
        if answer.impact
        else None,
        revisions=convert.revisions(tenant, answer.view.revisions),
        degraded=[types_pb2.Degradation(part=d.part, cause=d.cause) for d in answer.degraded],
        budget_tokens=block.budget,
        token_count=recall_messages.token_count(block.counted),
        as_of=memory_messages.resolved(as_of),
        timings=timings if shape.explain else (),
        why_not=convert.fates(answer.why_not),
    )


def _item(
    tenant: str, value: RecalledItem, shape: Shape, trail: Sequence[Snapshot]
) -> recall_pb2.RecallItem:
    item = value.item
    item = replace(
        item,
        repo=scope.name_out(tenant, item.repo),
        content=item.content if shape.with_content else "",
    )
    value = replace(value, item=item, arms=value.arms if shape.explain else {})
    out = recall_messages.item(value)
    if shape.explain:
        out.stages.extend(convert.ranks(trail, item.id))
    return out


def _impact_out(tenant: str, value: Impact) -> Impact:
    """With the names of repositories as the caller knows them: they begin each node's id."""

    def node(one: ImpactNode) -> ImpactNode:
        return replace(one, id=scope.name_out(tenant, one.id))

    def event(one: PastEvent) -> PastEvent:
        return replace(one, node=scope.name_out(tenant, one.node))

    return replace(
        value,
        touched=tuple(node(n) for n in value.touched),
        callers=tuple(node(n) for n in value.callers),
        tests=tuple(node(n) for n in value.tests),
        history=tuple(event(e) for e in value.history),
    )


def fit(response: pb.RecallResponse, limit_bytes: int) -> None:
    """Leave out whole texts, the last ones first, until `response` is at most `limit_bytes`, and say so.
    The context is not touched: its budget keeps it far below any limit of a message."""
    size, cut = response.ByteSize(), False
    for item in reversed(response.items):
        if size <= limit_bytes:
            break
        if item.item.content:
            size -= len(item.item.content.encode())
            item.item.content = ""
            cut = True
    if cut:
        response.degraded.append(types_pb2.Degradation(part="content", cause="message_size"))
