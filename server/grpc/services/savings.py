"""GetSavings: parse the request, ask the store for counts, sum them up, convert the answer."""

from __future__ import annotations

from dataclasses import replace

from plait.domain.savings import MAX_SESSIONS
from plait.memory import savings
from plait.v1 import memory_service_pb2 as pb
from plait.wire import savings as wire_savings
from plait.wire import scalars
from server.app import App
from server.grpc import visible
from server.grpc.messages import parse, scope


async def get(app: App, tenant: str, request: pb.GetSavingsRequest) -> pb.GetSavingsResponse:
    """Raises: InvalidInput, ScopeMissing."""
    names = parse.repositories(request.repositories, "repositories")
    scope.check_named(names, request.all_repositories)
    parse.text(request.session_key, "session_key", parse.MAX_NAME_BYTES)
    if request.HasField("since"):
        parse.time(request.since, "since")
    if request.page_size < 0:
        raise parse.bad("page_size", f"is {request.page_size}; it must be 0 to {parse.MAX_PAGE}")
    found = await app.truth.savings.session_counts(
        tenant,
        scope.names_in(tenant, names) or visible.own(tenant),
        session_key=request.session_key,
        since=scalars.datetime_of(request.since) if request.HasField("since") else None,
        limit=MAX_SESSIONS + 1,
    )
    counts = [replace(one, repo=scope.name_out(tenant, one.repo)) for one in found[:MAX_SESSIONS]]
    limit = min(request.page_size or parse.DEFAULT_PAGE, parse.MAX_PAGE)
    report = savings.report(counts, limit, cut=len(found) > MAX_SESSIONS)
    return wire_savings.response(report)
