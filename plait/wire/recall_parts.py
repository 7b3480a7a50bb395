"""What a recall answers of ↔ messages: its items, what it left out, what a change reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from uuid import UUID

from plait.domain.recall import (
    AnchorState,
    Dropped,
    Freshness,
    Impact,
    ImpactNode,
    NamedAnchor,
    Omission,
    PastEvent,
    RecalledItem,
    StageRank,
    Tier,
    TokenCount,
    Trust,
)
from plait.domain.values import ItemId
from plait.v1 import recall_pb2
from plait.wire import items, scalars

TIERS: Mapping[Tier, recall_pb2.RecallTier.ValueType] = {
    Tier.FULL: recall_pb2.RECALL_TIER_FULL,
    Tier.OUTLINE: recall_pb2.RECALL_TIER_OUTLINE,
    Tier.LINE: recall_pb2.RECALL_TIER_LINE,
}
FRESHNESS: Mapping[Freshness, recall_pb2.Freshness.ValueType] = {
    Freshness.FRESH: recall_pb2.FRESHNESS_FRESH,
    Freshness.DRIFTED: recall_pb2.FRESHNESS_DRIFTED,
    Freshness.ORPHANED: recall_pb2.FRESHNESS_ORPHANED,
    Freshness.UNVERIFIABLE: recall_pb2.FRESHNESS_UNVERIFIABLE,
}
TRUST: Mapping[Trust, recall_pb2.Trust.ValueType] = {
    Trust.REPOSITORY: recall_pb2.TRUST_REPOSITORY,
    Trust.TEST_PASSED: recall_pb2.TRUST_TEST_PASSED,
    Trust.AGENT_CLAIMED: recall_pb2.TRUST_AGENT_CLAIMED,
    Trust.EXTERNAL: recall_pb2.TRUST_EXTERNAL,
}
ANCHORS: Mapping[AnchorState, recall_pb2.AnchorState.ValueType] = {
    AnchorState.SAME: recall_pb2.ANCHOR_STATE_SAME,
    AnchorState.CHANGED: recall_pb2.ANCHOR_STATE_CHANGED,
    AnchorState.MOVED: recall_pb2.ANCHOR_STATE_MOVED,
    AnchorState.GONE: recall_pb2.ANCHOR_STATE_GONE,
}
TIER_OF = {number: tier for tier, number in TIERS.items()}
FRESHNESS_OF = {number: value for value, number in FRESHNESS.items()}
ANCHOR_OF = {number: state for state, number in ANCHORS.items()}
TRUST_OF = {number: value for value, number in TRUST.items()}


def item(value: RecalledItem) -> recall_pb2.RecallItem:
    return recall_pb2.RecallItem(
        item=items.item(value.item),
        score=value.score,
        tokens=value.tokens,
        text=value.text,
        tier=TIERS[value.tier],
        reasons=value.reasons,
        joined_item_ids=[str(id_) for id_ in value.also],
        freshness=FRESHNESS[value.freshness],
        trust=TRUST[value.trust],
        anchors=[
            recall_pb2.NamedAnchor(
                path=a.path, symbol=a.symbol, state=ANCHORS[a.state], moved_to=a.to
            )
            for a in value.anchors
        ],
        arms=value.arms,
    )


def item_of(message: recall_pb2.RecallItem) -> RecalledItem:
    return RecalledItem(
        item=items.item_of(message.item),
        score=message.score,
        tier=TIER_OF[message.tier],
        text=message.text,
        tokens=message.tokens,
        reasons=tuple(message.reasons),
        trust=TRUST_OF[message.trust],
        freshness=FRESHNESS_OF[message.freshness],
        also=tuple(ItemId(UUID(id_)) for id_ in message.joined_item_ids),
        arms=dict(message.arms),
        anchors=tuple(
            NamedAnchor(a.path, a.symbol, ANCHOR_OF[a.state], a.moved_to) for a in message.anchors
        ),
    )


def ranks_of(messages: Iterable[recall_pb2.StageRank]) -> tuple[StageRank, ...]:
    return tuple(StageRank(m.stage, m.rank, m.score) for m in messages)


def ranks(values: Iterable[StageRank]) -> list[recall_pb2.StageRank]:
    return [recall_pb2.StageRank(stage=v.stage, rank=v.rank, score=v.score) for v in values]


def dropped(value: Dropped) -> recall_pb2.Exclusion:
    """NaN, a rule without a number, becomes an unset field."""
    return recall_pb2.Exclusion(
        stage=value.stage,
        cause=value.cause,
        score=None if isnan(value.score) else value.score,
        bar=None if isnan(value.bar) else value.bar,
        rank=value.rank,
    )


def dropped_of(message: recall_pb2.Exclusion) -> Dropped:
    nan = float("nan")
    return Dropped(
        message.stage,
        message.cause,
        message.score if message.HasField("score") else nan,
        message.bar if message.HasField("bar") else nan,
        message.rank,
    )


def omission(value: Omission) -> recall_pb2.RecallOmission:
    return recall_pb2.RecallOmission(
        item_id=str(value.id), score=value.score, cause=value.why.cause, why=dropped(value.why)
    )


def omission_of(message: recall_pb2.RecallOmission) -> Omission:
    return Omission(ItemId(UUID(message.item_id)), message.score, dropped_of(message.why))


def fates(values: Mapping[ItemId, Dropped]) -> list[recall_pb2.WhyNot]:
    return [recall_pb2.WhyNot(item_id=str(id_), why=dropped(why)) for id_, why in values.items()]


def fates_of(messages: Iterable[recall_pb2.WhyNot]) -> dict[ItemId, Dropped]:
    return {ItemId(UUID(m.item_id)): dropped_of(m.why) for m in messages}


def token_count(value: TokenCount) -> recall_pb2.TokenCount:
    return recall_pb2.TokenCount(tokenizer=value.tokenizer, exact=value.exact, margin=value.margin)


def token_count_of(message: recall_pb2.TokenCount) -> TokenCount:
    return TokenCount(message.tokenizer, message.exact, message.margin)


def impact(value: Impact) -> recall_pb2.Impact:
    return recall_pb2.Impact(
        touched=[_node(n) for n in value.touched],
        callers=[_node(n) for n in value.callers],
        tests=[_node(n) for n in value.tests],
        history=[_event(e) for e in value.history],
        truncated=value.truncated,
    )


def impact_of(message: recall_pb2.Impact) -> Impact:
    return Impact(
        touched=tuple(_node_of(n) for n in message.touched),
        callers=tuple(_node_of(n) for n in message.callers),
        tests=tuple(_node_of(n) for n in message.tests),
        history=tuple(_event_of(e) for e in message.history),
        truncated=message.truncated,
    )


def _node(value: ImpactNode) -> recall_pb2.ImpactNode:
    return recall_pb2.ImpactNode(
        node_id=value.id,
        name=value.name,
        path=value.path,
        line=value.line,
        distance=value.distance,
        via=value.via,
        confidence=value.confidence,
    )


def _node_of(message: recall_pb2.ImpactNode) -> ImpactNode:
    return ImpactNode(
        message.node_id,
        message.name,
        message.path,
        message.line,
        message.distance,
        message.via,
        message.confidence,
    )


def _event(value: PastEvent) -> recall_pb2.PastEvent:
    return recall_pb2.PastEvent(
        kind=value.kind,
        title=value.title,
        time=scalars.timestamp(value.at),
        item_id=str(value.item_id) if value.item_id else "",
        node_id=value.node,
        symbols=value.symbols,
        tests=value.tests,
    )


def _event_of(message: recall_pb2.PastEvent) -> PastEvent:
    return PastEvent(
        kind=message.kind,
        title=message.title,
        at=scalars.optional_time(message, "time"),
        item_id=ItemId(UUID(message.item_id)) if message.item_id else None,
        node=message.node_id,
        symbols=tuple(message.symbols),
        tests=tuple(message.tests),
    )
