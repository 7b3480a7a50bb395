"""Receipts: the request and answer of a recall, as JSON that can be replayed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from plait.domain.ids import new_item_ids
from plait.domain.recall import Block, PackingOptions, RecallId, Receipt
from plait.retrieval.query.analysis import SearchQuery
from plait.retrieval.search_context import SearchContext


def encode(query: SearchQuery, options: PackingOptions) -> dict[str, Any]:
    """The parts of a request that decide its answer: without deadline and explanations."""
    deciding = replace(query, deadline=None, explain=False, why_not=())
    return {"query": msgspec.to_builtins(deciding), "options": msgspec.to_builtins(options)}


def decode(request: Mapping[str, Any]) -> tuple[SearchQuery, PackingOptions]:
    """Inverse of `encode`. Fields that are newer than the receipt have their defaults."""
    query = {name: value for name, value in request["query"].items() if name != "deadline"}
    return (
        msgspec.convert(query, SearchQuery),
        msgspec.convert(request["options"], PackingOptions),
    )


def digest(block: Block) -> bytes:
    """16-byte BLAKE2b of the context and of its items, their ids, tiers and texts."""
    out = hashlib.blake2b(digest_size=16)
    for part in (
        block.context,
        *(p for i in block.items for p in (str(i.item.id), i.tier, i.text)),
    ):
        data = part.encode("utf-8", "surrogatepass")
        out.update(len(data).to_bytes(8, "big"))
        out.update(data)
    return out.digest()


def receipt_of(ctx: SearchContext, started: datetime) -> Receipt:
    """The receipt of a recall that has its block. `started`: when it began, by this machine's clock."""
    assert ctx.block is not None
    assert ctx.options is not None
    view, where = ctx.at, ctx.query.where
    # The clock of the store, where the view was read by it.
    at = started if where.as_of.valid is not None or view.valid is None else view.valid
    return Receipt(
        RecallId(UUID(int=new_item_ids(1)[0].int)),
        view.tenant,
        tuple(revision.repo for revision in view.revisions),
        ctx.options.session_key,
        where.agent_id,
        encode(ctx.query, ctx.options),
        {revision.repo: revision.number for revision in view.revisions},
        at,
        tuple((one.item.id, one.score) for one in ctx.block.items),
        tuple(sorted(ctx.shown, key=lambda id_: id_.int)),
        ctx.block.tokens,
        digest(ctx.block),
        not ctx.degraded,
        tuple(revision.repo_id for revision in view.revisions),
    )
