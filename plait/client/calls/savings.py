"""The call of MemoryService that reports the cost of look-ups; see `calls`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from plait.client.calls import timeouts
from plait.client.calls.call import Call
from plait.domain.savings import Savings
from plait.v1 import memory_service_pb2 as pb
from plait.wire import savings as wire_savings
from plait.wire import scalars
from plait.wire.sendable import sendable


@sendable
def savings(
    repositories: Sequence[str],
    all_repositories: bool,
    *,
    session_key: str,
    since: datetime | None,
    limit: int,
    timeout_s: float | None,
) -> Call[Savings]:
    request = pb.GetSavingsRequest(
        repositories=repositories,
        all_repositories=all_repositories,
        session_key=session_key,
        since=scalars.timestamp(since),
        page_size=limit,
    )
    answer, timeout = pb.GetSavingsResponse, timeout_s or timeouts.READ_S
    return Call("MemoryService", "GetSavings", request, answer, wire_savings.savings_of, timeout)
