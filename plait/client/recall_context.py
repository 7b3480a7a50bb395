"""Answers as the block for a prompt, in the client: no server is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from plait import tokens
from plait.client.recall_values import RecallResult
from plait.domain.memory import MemoryMatch
from plait.domain.recall import Freshness, RecalledItem, RecallFormat, Tier, Trust
from plait.domain.values import Collection, Hit, Item, ItemId
from plait.retrieval.packing import markdown
from plait.retrieval.packing.join import alone
from plait.retrieval.packing.pack import Limits, pack
from plait.retrieval.packing.piece import Body, Piece

BUDGET_TOKENS = 4_000
_OWN_VOICE = frozenset({"user", "assistant", "agent", "human"})
_OUTSIDE_TAGS = frozenset({"external", "web", "tool-output"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_context(
    found: RecallResult | Sequence[Hit | MemoryMatch],
    *,
    budget_tokens: int = BUDGET_TOKENS,
    tokenizer: str = "",
) -> str:
    """`## Relevant Memories` and one bullet an item, best first; "" for nothing.

    Of a recall its context; of a structured one its items, whose texts keep to the recall's own budget.
    Hits of `search` and matches of memories are packed into `budget_tokens` as a recall packs: what does
    not fit steps down to an outline or a line. `tokenizer`: the model that will read it. What was said
    from outside, or may have been, is quoted.
    """
    if isinstance(found, RecallResult):
        return found.context or _bullets(found.items)
    if not found:
        return ""
    counter = tokens.counter(tokenizer)
    limits = Limits(budget_tokens, counter, len(found), {"code": 1.0, "memory": 1.0})
    pieces = {piece.item.id: piece for piece in map(_piece, found)}
    return pack(tuple(pieces.values()), limits, RecallFormat.MARKDOWN).context


def _bullets(items: Sequence[RecalledItem]) -> str:
    if not items:
        return ""
    return markdown.HEADING + "".join(_bullet(one) for one in items)


def _bullet(one: RecalledItem) -> str:
    text = one.text
    if one.trust is Trust.EXTERNAL:  # it is quoted already, and the bullet quotes it again
        text = "".join(line.removeprefix("> ") + "\n" for line in text.split("\n")).strip()
    piece = Piece(one.item, one.score, one.reasons, one.trust, one.freshness)
    beside = one.tier is Tier.LINE or (piece.is_code and one.tier is Tier.OUTLINE)
    if piece.is_code and one.tier is Tier.LINE:
        text = ""  # its bullet names it
    where = alone(one.item)
    body = Body(one.tier, where, line=text.strip()) if beside else Body(one.tier, where, block=text)
    return "".join(markdown.bullet(piece, body))


def _piece(found: Hit | MemoryMatch) -> Piece:
    item = found.item if isinstance(found, Hit) else _item(found)
    is_code = item.collection is Collection.FILES
    fresh = Freshness.FRESH if is_code else Freshness.UNVERIFIABLE
    return Piece(item, found.score, (), _trust(item), fresh)


def _trust(item: Item) -> Trust:
    """A hit tells less of its source than a recall: turns and notes whose speaker is not known count as
    from outside."""
    if item.collection is Collection.FILES:
        return Trust.REPOSITORY
    role = str(item.meta.get("role", "")).lower()
    said_outside = (
        item.meta.get("trust") == "external"
        or item.meta.get("rule") == "tool"
        or not _OUTSIDE_TAGS.isdisjoint(item.tags)
        or (item.kind in ("turn", "note") and role not in _OWN_VOICE)
    )
    return Trust.EXTERNAL if said_outside else Trust.AGENT_CLAIMED


def _item(match: MemoryMatch) -> Item:
    entry = match.entry
    return Item(
        id=ItemId(entry.id),
        collection=Collection.MEMORIES,
        repo=entry.repo,
        kind=entry.kind,
        path=entry.path,
        symbol=entry.symbol,
        language="",
        start_line=0,
        end_line=0,
        content=entry.content,
        ts=entry.updated_at or entry.created_at or _EPOCH,
        meta=dict(entry.metadata.custom),
        tags=entry.metadata.tags,
    )
