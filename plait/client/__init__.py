"""The typed client, for programs that talk to a Plait server.

    from plait.client import Filter, PlaitClient, new_memory

    with PlaitClient() as plait:
        for hit in plait.search("where are retries configured", where=Filter(repos=("app",))).hits:
            print(hit.score, hit.item.path, hit.item.symbol)
        plait.store(new_memory("Retries live in app/http.py", repo="app", agent_id="fixer"))

`AsyncPlaitClient` has the same methods for asyncio. Failures are `PlaitRpcError`, with the server's
reason, values and the request fields at fault.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.client.aio import AsyncPlaitClient
    from plait.client.errors import PlaitRpcError
    from plait.client.memory_values import Tool, new_memory
    from plait.client.sync import PlaitClient
    from plait.client.values import GraphAnswer, IndexJob, SearchResult
    from plait.domain.memory import MemoryEntry, MemoryFilter, MemorySource, MemoryType
    from plait.domain.retention import Selector
    from plait.domain.values import Filter

__all__ = [
    "AsyncPlaitClient",
    "Filter",
    "GraphAnswer",
    "IndexJob",
    "MemoryEntry",
    "MemoryFilter",
    "MemorySource",
    "MemoryType",
    "PlaitClient",
    "PlaitRpcError",
    "SearchResult",
    "Selector",
    "Tool",
    "new_memory",
]

_HOMES = {
    "AsyncPlaitClient": "plait.client.aio",
    "Filter": "plait.domain.values",
    "GraphAnswer": "plait.client.values",
    "IndexJob": "plait.client.values",
    "MemoryEntry": "plait.domain.memory",
    "MemoryFilter": "plait.domain.memory",
    "MemorySource": "plait.domain.memory",
    "MemoryType": "plait.domain.memory",
    "PlaitClient": "plait.client.sync",
    "PlaitRpcError": "plait.client.errors",
    "SearchResult": "plait.client.values",
    "Selector": "plait.domain.retention",
    "Tool": "plait.client.memory_values",
    "new_memory": "plait.client.memory_values",
}


def __getattr__(name: str) -> Any:
    # Late: gRPC costs 60 ms, and a command line imports this package for the address of a server.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
