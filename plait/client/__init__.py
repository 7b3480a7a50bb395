"""The typed client, for programs that talk to a Plait server.

    from plait.client import Filter, PlaitClient, new_memory

    with PlaitClient() as plait:
        for hit in plait.search("where are retries configured", where=Filter(repos=("app",))).hits:
            print(hit.score, hit.item.path, hit.item.symbol)
        plait.store(new_memory("Retries live in app/http.py", repo="app", agent_id="fixer"))
        prompt += plait.query_and_format("make retries back off", where=Filter(repos=("app",)))

`AsyncPlaitClient` has the same methods for asyncio. Failures are `PlaitRpcError`, with the server's
reason, values and the request fields at fault.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.client.aio.client import AsyncPlaitClient
    from plait.client.entries import new_memory
    from plait.client.errors import PlaitRpcError
    from plait.client.recall_context import format_context
    from plait.client.sync.client import PlaitClient
    from plait.domain.access import Quota, Verb
    from plait.domain.answers.graph import GraphAnswer
    from plait.domain.answers.indexing import IndexJob
    from plait.domain.answers.keys import NewSecret
    from plait.domain.answers.memories import Tool
    from plait.domain.answers.recalls import FeedbackTaken, RecallResult, Replayed
    from plait.domain.answers.search import SearchResult
    from plait.domain.keys import ApiKey
    from plait.domain.memory import MemoryEntry, MemoryFilter, MemorySource, MemoryType
    from plait.domain.options import RecallOptions, SearchOptions
    from plait.domain.recall import ItemVerdict, RecallFormat, Verdict
    from plait.domain.retention import Selector
    from plait.domain.values import Filter, Outcome

__all__ = [
    "ApiKey",
    "AsyncPlaitClient",
    "FeedbackTaken",
    "Filter",
    "GraphAnswer",
    "IndexJob",
    "ItemVerdict",
    "MemoryEntry",
    "MemoryFilter",
    "MemorySource",
    "MemoryType",
    "NewSecret",
    "Outcome",
    "PlaitClient",
    "PlaitRpcError",
    "Quota",
    "RecallFormat",
    "RecallOptions",
    "RecallResult",
    "Replayed",
    "SearchOptions",
    "SearchResult",
    "Selector",
    "Tool",
    "Verb",
    "Verdict",
    "format_context",
    "new_memory",
]

_HOMES = {
    "ApiKey": "plait.domain.keys",
    "AsyncPlaitClient": "plait.client.aio.client",
    "FeedbackTaken": "plait.domain.answers.recalls",
    "Filter": "plait.domain.values",
    "GraphAnswer": "plait.domain.answers.graph",
    "IndexJob": "plait.domain.answers.indexing",
    "ItemVerdict": "plait.domain.recall",
    "MemoryEntry": "plait.domain.memory",
    "MemoryFilter": "plait.domain.memory",
    "MemorySource": "plait.domain.memory",
    "MemoryType": "plait.domain.memory",
    "NewSecret": "plait.domain.answers.keys",
    "Outcome": "plait.domain.values",
    "PlaitClient": "plait.client.sync.client",
    "PlaitRpcError": "plait.client.errors",
    "Quota": "plait.domain.access",
    "RecallFormat": "plait.domain.recall",
    "RecallOptions": "plait.domain.options",
    "RecallResult": "plait.domain.answers.recalls",
    "Replayed": "plait.domain.answers.recalls",
    "SearchOptions": "plait.domain.options",
    "SearchResult": "plait.domain.answers.search",
    "Selector": "plait.domain.retention",
    "Tool": "plait.domain.answers.memories",
    "Verb": "plait.domain.access",
    "Verdict": "plait.domain.recall",
    "format_context": "plait.client.recall_context",
    "new_memory": "plait.client.entries",
}


def __getattr__(name: str) -> Any:
    # On first use: gRPC costs 60 ms, and a command line imports this package for the address of a server.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
