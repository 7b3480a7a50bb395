"""The typed client, for programs that talk to a Plait server.

    from plait.client import PlaitClient

    with PlaitClient() as plait:
        for hit in plait.search("where are retries configured").hits:
            print(hit.score, hit.item.path, hit.item.symbol)

`AsyncPlaitClient` has the same methods for asyncio. Failures are `PlaitRpcError`, with the server's
reason, values and the request fields at fault.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.client.aio import AsyncPlaitClient
    from plait.client.errors import PlaitRpcError
    from plait.client.sync import PlaitClient
    from plait.client.values import GraphAnswer, IndexJob, SearchResult

__all__ = [
    "AsyncPlaitClient",
    "GraphAnswer",
    "IndexJob",
    "PlaitClient",
    "PlaitRpcError",
    "SearchResult",
]

_HOMES = {
    "AsyncPlaitClient": "aio",
    "GraphAnswer": "values",
    "IndexJob": "values",
    "PlaitClient": "sync",
    "PlaitRpcError": "errors",
    "SearchResult": "values",
}


def __getattr__(name: str) -> Any:
    # Late: gRPC costs 60 ms, and a command line imports this package for the address of a server.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
