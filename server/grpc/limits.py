"""How long a call may take: the caller's deadline, else the server's, and never more than its limit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from plait.domain.deadline import Deadline
from plait.settings import Settings

# Streams end with what they watch, not with a clock.
UNLIMITED = frozenset(
    {"/plait.v1.IndexService/WatchIndexJob", "/plait.v1.KnowledgeService/IngestEpisodes"}
)

# An answer leaves by so much before its caller's deadline: guessed, for a busy machine's event loop and
# a network's round trip.
MARGIN_SHARE, MARGIN_S = 0.1, 0.25

_UPKEEP = tuple(
    f"/plait.v1.AdminService/{name}"
    for name in ("Compact", "UndoCompaction", "Forget", "Verify", "Rebuild")
)


class Context(Protocol):
    """What this needs of a gRPC context."""

    def time_remaining(self) -> float | None: ...


class Limits:
    """Deadlines by method, from settings."""

    def __init__(self, settings: Settings) -> None:
        self._default_s = settings.server.timeout_s
        self._longest_s = settings.server.max_timeout_s
        self.message_bytes = settings.server.max_message_bytes
        self._by_method: Mapping[str, float] = {
            "/plait.v1.KnowledgeService/Search": settings.search.timeout_s,
            "/plait.v1.KnowledgeService/Recall": settings.search.timeout_s,
            "/plait.v1.KnowledgeService/ReplayRecall": settings.search.timeout_s,
            "/plait.v1.KnowledgeService/GraphQuery": settings.graph.query_timeout_s,
            # Upkeep reads whole repositories.
            **dict.fromkeys(_UPKEEP, settings.server.max_timeout_s),
        }

    def deadline(self, method: str, context: Context | Any) -> Deadline:
        """The deadline of one call of `method` (as `/package.Service/Method`)."""
        given = context.time_remaining()
        if given is None:
            given_s = self._by_method.get(method, self._default_s)
            return Deadline.after(min(given_s, self._longest_s))
        limit_s = min(given, self._longest_s)
        return Deadline(time.monotonic() + min(in_time(given), limit_s), limit_s)

    def stream_deadline(self, context: Context | Any) -> Deadline | None:
        """The deadline of one stream, where its caller has set one."""
        given = context.time_remaining()
        return None if given is None else Deadline(time.monotonic() + in_time(given), given)


def in_time(given_s: float) -> float:
    """Seconds after which to answer a caller who waits for `given_s`, so that the answer arrives."""
    return given_s - min(MARGIN_SHARE * given_s, MARGIN_S)
