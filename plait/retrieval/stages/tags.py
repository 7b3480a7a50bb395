"""The factor of tags."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.values import ItemId
from plait.retrieval.ranking.weights import DEFAULT
from plait.retrieval.search_context import Deps, SearchContext
from plait.text.tokenize import tokens

WEIGHTS = DEFAULT.memories
MAX_TAGS = 200


async def tags(ctx: SearchContext, deps: Deps) -> SearchContext:
    """Raise items with a tag named in the query."""
    if not any(place.tags for place in ctx.places.values()):
        return ctx
    terms = frozenset(ctx.analysis.terms)
    found: dict[ItemId, float] = {}
    reasons = dict(ctx.reasons)
    for id_ in ctx.order:
        place = ctx.places[id_]
        if place.tags and (tag := _named(place.tags[:MAX_TAGS], terms)):
            found[id_] = 1.0 + WEIGHTS.tagged
            reasons[id_] = (*reasons.get(id_, ()), f"tagged {tag}")
    if not found:
        return ctx
    return replace(ctx, factors={**ctx.factors, "tags": found}, reasons=reasons)


def _named(tags: tuple[str, ...], terms: frozenset[str]) -> str:
    """The first of `tags` whose words are all in the query."""
    for tag in tags:
        words = frozenset(tokens(tag))
        if words and words <= terms:
            return tag
    return ""
