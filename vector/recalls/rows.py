"""Receipts between rows and values, and texts as PostgreSQL takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plait.domain.recall import RecallId, Receipt
from plait.domain.values import ItemId


def to_receipt(id_: RecallId, row: Sequence[Any]) -> Receipt:
    """A row of `RECEIPT`."""
    tenant, repos, session, agent, request, revisions, at, items, scores, shown, *rest = row
    tokens, digest, complete, repo_ids = rest
    return Receipt(
        id_,
        tenant,
        tuple(repos),
        session,
        agent,
        request,
        revisions,
        at,
        tuple((ItemId(item), float(score)) for item, score in zip(items, scores, strict=True)),
        tuple(ItemId(item) for item in shown),
        tokens,
        bytes(digest),
        complete,
        tuple(repo_ids),
    )


def plain(text: str) -> str:
    """Without what PostgreSQL takes in no text: NULs and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode()


def cleaned(value: Any) -> Any:
    """`value`, JSON, with every text `plain`."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(str(key)): cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one) for one in value]
    return value
