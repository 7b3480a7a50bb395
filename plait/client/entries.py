"""A memory on its way to `store`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata, MemorySource, MemoryType


def new_memory(
    content: str,
    *,
    repo: str,
    agent_id: str = "",
    session_key: str = "",
    type: MemoryType = MemoryType.SEMANTIC,
    source: MemorySource = MemorySource.AGENT,
    tags: Sequence[str] = (),
    importance: float = 0.5,
    custom: Mapping[str, Any] | None = None,
    path: str = "",
    symbol: str = "",
    pinned: bool = False,
    embedding: Sequence[float] | None = None,
    valid_from: datetime | None = None,
    valid_to: datetime | None = None,
) -> MemoryEntry:
    """A memory on its way to `store`; what the server sets is left empty."""
    metadata = MemoryMetadata(
        source, session_key, tuple(sorted(set(tags))), importance, dict(custom or {})
    )
    return MemoryEntry(
        id=NO_ID,
        repo=repo,
        agent_id=agent_id,
        content=content,
        metadata=metadata,
        type=type,
        path=path,
        symbol=symbol,
        pinned=pinned,
        embedding=None if embedding is None else tuple(embedding),
        valid_from=valid_from,
        valid_to=valid_to,
    )
