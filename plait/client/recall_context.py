"""Recalled items and hits as the block for a prompt, in the client: no server is asked."""

from __future__ import annotations

from collections.abc import Sequence

from plait.client.recall_values import RecallResult
from plait.domain.recall import RecalledItem
from plait.domain.values import Hit

HEADING = "## Relevant Memories"


def format_context(found: RecallResult | Sequence[RecalledItem | Hit]) -> str:
    """`## Relevant Memories` and one bullet an item, best first; "" for nothing.

    Of a `RecallResult` its items in their order, as a `structured` recall answers them too; of hits their
    whole text. Nothing is cut here: the budget is the recall's.
    """
    items = found.items if isinstance(found, RecallResult) else found
    if not items:
        return ""
    return "\n".join([HEADING, "", *(_bullet(one) for one in items)]) + "\n"


def _bullet(one: RecalledItem | Hit) -> str:
    item, text = one.item, one.text if isinstance(one, RecalledItem) else one.item.content
    place = f"{item.path}:{item.start_line}-{item.end_line}" if item.start_line else item.path
    head = " ".join(part for part in (place, item.symbol) if part) or str(item.collection)
    body = "\n".join(f"  {line}".rstrip() for line in text.splitlines())
    return f"- [score: {one.score:.2f}] {head}\n{body}"
