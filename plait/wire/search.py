"""Searches ↔ messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from plait.domain.answers.search import SearchResult
from plait.domain.options import SearchOptions
from plait.domain.values import Filter, Hit
from plait.lazy import lazy_module
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import items, read_times

if TYPE_CHECKING:
    from plait.wire import recall_parts
else:
    recall_parts = lazy_module("plait.wire.recall_parts")

MODES: Mapping[str, pb.SearchMode.ValueType] = {
    "fast": pb.SEARCH_MODE_FAST,
    "full": pb.SEARCH_MODE_FULL,
}
MODE_OF: Mapping[int, Literal["fast", "full"]] = {
    pb.SEARCH_MODE_UNSPECIFIED: "fast",
    pb.SEARCH_MODE_FAST: "fast",
    pb.SEARCH_MODE_FULL: "full",
}
FUSIONS: Mapping[str | None, pb.Fusion.ValueType] = {
    None: pb.FUSION_UNSPECIFIED,
    "minmax": pb.FUSION_MIN_MAX,
    "rrf": pb.FUSION_RRF,
}
FUSION_OF: Mapping[int, Literal["minmax", "rrf"] | None] = {
    pb.FUSION_UNSPECIFIED: None,
    pb.FUSION_MIN_MAX: "minmax",
    pb.FUSION_RRF: "rrf",
}


def request(
    query: str, where: Filter | None, k: int, min_score: float, options: SearchOptions
) -> pb.SearchRequest:
    """Raises: KeyError, for a mode or a fusion that is none."""
    return pb.SearchRequest(
        query=query,
        filter=items.filter_(where) if where else None,
        k=k,
        min_score=min_score,
        mode=MODES[options.mode],
        fusion=FUSIONS[options.fusion],
        explain=options.explain,
        as_of=read_times.of_read(where, options),
        stages_off=options.stages_off,
        why_not=[str(id_) for id_ in options.why_not],
    )


def options_of(message: pb.SearchRequest) -> SearchOptions:
    """Raises: KeyError, for a mode or a fusion that is none; ValueError, for a time."""
    return SearchOptions(
        mode=MODE_OF[message.mode],
        fusion=FUSION_OF[message.fusion],
        stages_off=tuple(message.stages_off),
        explain=message.explain,
        why_not=tuple(message.why_not),
        valid_as_of=read_times.point_of(message.as_of.valid),
        recorded_as_of=read_times.point_of(message.as_of.recorded),
    )


def response(value: SearchResult) -> pb.SearchResponse:
    return pb.SearchResponse(
        hits=[_hit(hit, value) for hit in value.hits],
        revisions=items.revisions(value.revisions),
        degraded=items.degraded(value.degraded),
        timings=items.timings(value.timings),
        took_ms=value.took_ms,
        why_not=recall_parts.fates(value.why_not) if value.why_not else (),
        as_of=read_times.resolved(value.as_of),
    )


def with_took_ms(message: bytes, took_ms: float) -> bytes:
    """A serialised response with its time: what is appended replaces what was said before."""
    return message + pb.SearchResponse(took_ms=took_ms).SerializeToString()


def response_of(message: pb.SearchResponse) -> SearchResult:
    hits = tuple(Hit(items.item_of(h.item), h.score, dict(h.arms)) for h in message.hits)
    return SearchResult(
        hits=hits,
        revisions=items.revisions_of(message.revisions),
        degraded=items.degraded_of(message.degraded),
        timings=items.timings_of(message.timings),
        took_ms=message.took_ms,
        as_of=read_times.resolved_of(message.as_of),
        why_not=recall_parts.fates_of(message.why_not) if message.why_not else {},
        ranks={
            hit.item.id: recall_parts.ranks_of(sent.stages)
            for hit, sent in zip(hits, message.hits, strict=True)
            if sent.stages
        },
    )


def _hit(hit: Hit, answer: SearchResult) -> pb.Hit:
    ranks = answer.ranks.get(hit.item.id)
    return pb.Hit(
        item=items.item(hit.item),
        score=hit.score,
        arms=hit.arms,
        stages=recall_parts.ranks(ranks) if ranks else (),
    )
