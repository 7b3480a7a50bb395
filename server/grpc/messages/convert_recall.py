"""Recalls → the values that callers get, under the names that they know."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plait.domain.answers.recalls import RecallResult
from plait.domain.memory import AsOf
from plait.domain.recall import Impact, ImpactNode, PastEvent, RecalledItem
from plait.retrieval.recall import RecallAnswer
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import types_pb2
from server.grpc.messages import convert, scope

MAX_OMITTED = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """What of an answer is sent."""

    explain: bool
    with_content: bool


def result(tenant: str, answer: RecallAnswer, shape: Shape, as_of: AsOf) -> RecallResult:
    block, explain = answer.block, shape.explain
    return RecallResult(
        recall_id=answer.recall_id or answer.replay_of,
        context=block.context,
        items=tuple(_item(tenant, item, shape) for item in block.items),
        omitted=block.omitted[:MAX_OMITTED],
        tokens=block.tokens,
        budget=block.budget,
        counted=block.counted,
        silence=block.silence,
        kind=str(answer.kind),
        impact=_impact_out(tenant, answer.impact),
        revisions=convert.revisions(tenant, answer.view.revisions),
        degraded=convert.degraded(answer.degraded),
        why_not=answer.why_not or {},
        ranks={one.item.id: convert.ranks(answer.trail, one.item.id) for one in block.items}
        if explain
        else {},
        timings=answer.timings if explain else (),
        as_of=as_of,
    )


def _item(tenant: str, value: RecalledItem, shape: Shape) -> RecalledItem:
    item = replace(
        value.item,
        repo=scope.name_out(tenant, value.item.repo),
        content=value.item.content if shape.with_content else "",
    )
    return replace(value, item=item, arms=value.arms if shape.explain else {})


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
