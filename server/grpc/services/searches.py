"""Which searches may be answered by an earlier answer: `server/answers.py` keeps those."""

from __future__ import annotations

from plait.retrieval.search import SearchAnswer
from plait.settings import Settings
from plait.v1 import knowledge_service_pb2 as pb
from plait.v1 import types_pb2

Key = tuple[str, bytes]

# What is missing from an answer for a reason that the code's version tells.
_BY_VERSION = frozenset({"coverage", "no_vectors", "too_many_chunks"})


def key_of(tenant: str, request: pb.SearchRequest, settings: Settings) -> Key | None:
    """What equal requests share; None for one whose answer depends on more than the code of the repositories that it
    names: agents' items and feedback, times, a chat model, what another query reads into memory."""
    if (
        request.mode == pb.SEARCH_MODE_FULL
        or request.explain
        or request.why_not
        or request.HasField("as_of")
        or request.filter.all_repositories
        or any(c != types_pb2.COLLECTION_FILES for c in request.filter.collections)
        or not settings.search.cache_bytes
        or settings.search.expansion == "on"
    ):
        return None
    return tenant, request.SerializeToString(deterministic=True)


def is_whole(answer: SearchAnswer) -> bool:
    """Whether nothing is missing from `answer` that an equal search might find a moment later."""
    known = all(part.cause in _BY_VERSION for part in answer.degraded)
    return known and bool(answer.view.version)
